"""The user file: names, password hashes, certificates and roles.

```toml
[users.alice]
password = "$argon2id$v=19$m=65536,t=3,p=4$..."
roles = ["analyst"]

[users.loader]
certificates = ["loader.example.org"]
roles = ["writer"]
```
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import tomlkit
from argon2 import extract_parameters
from argon2.exceptions import InvalidHashError
from pydantic import Field

from gateway.auth.files import Strict, read_text, read_toml
from gateway.protocol.identity import Identity, check_name
from memwal.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class User:
    """A line of the user file.

    Args:
        name: of the user.
        password_hash: argon2 in its usual text form; None for a user who has no password.
        certificates: names in client certificates that stand for the user.
        roles: what a policy grants to.
    """

    name: str
    password_hash: str | None = field(default=None, repr=False)
    certificates: tuple[str, ...] = ()
    roles: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_name(self.name)
        if ":" in self.name:
            raise InvalidInputError(
                f"user {self.name!r}: Basic credentials end a name at a colon; leave it out"
            )
        if self.password_hash is not None:
            try:
                extract_parameters(self.password_hash)
            except InvalidHashError:
                raise InvalidInputError(
                    f"user {self.name!r}: the password is not an argon2 hash; make one with "
                    "`lance-gateway user add`"
                ) from None

    def identity(self, method: str) -> Identity:
        """Returns the user as a principal who proved it by `method`."""
        return Identity(self.name, self.roles, method)


@dataclass(frozen=True, slots=True)
class Users:
    """What a user file says.

    Args:
        by_name: name -> user.
        by_certificate: name in a certificate -> user.
    """

    by_name: Mapping[str, User]
    by_certificate: Mapping[str, User]


class _UserTable(Strict):
    password: str | None = None
    certificates: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class _UserFile(Strict):
    users: dict[str, _UserTable] = Field(default_factory=dict)


def parse_users(text: str, where: str) -> Users:
    """Returns what the text of a user file says.

    Raises:
        InvalidInputError: what is wrong, and in which file.
    """
    by_name: dict[str, User] = {}
    by_certificate: dict[str, User] = {}
    for name, table in read_toml(text, where, _UserFile).users.items():
        try:
            user = User(name, table.password, table.certificates, frozenset(table.roles))
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: {error}") from None
        by_name[name] = user
        for certificate in user.certificates:
            other = by_certificate.setdefault(certificate, user)
            if other is not user:
                raise InvalidInputError(
                    f"{where}: the certificate {certificate!r} stands for the users {other.name!r} and "
                    f"{name!r}: choose one"
                )
    return Users(MappingProxyType(by_name), MappingProxyType(by_certificate))


def find_user(path: Path, name: str) -> User | None:
    """Returns a user of a user file; None where there is none of that name, or no file yet."""
    return parse_users(read_text(path), str(path)).by_name.get(name) if path.exists() else None


def write_user(path: Path, user: User, *, replace: bool = False) -> None:
    """Adds a user to a user file, which is made if there is none; comments and order stay.

    Raises:
        InvalidInputError: the user is there already and is not to be replaced, or the file is no user file.
    """
    if not replace and find_user(path, user.name) is not None:
        raise InvalidInputError(f"user {user.name!r} is in {path} already: say --replace to change it")
    text = read_text(path) if path.exists() else ""
    document = tomlkit.parse(text)
    table = tomlkit.table()
    if user.password_hash is not None:
        table["password"] = user.password_hash
    if user.certificates:
        table["certificates"] = list(user.certificates)
    table["roles"] = sorted(user.roles)
    put_table(document, "users", user.name, table)
    write_private(path, tomlkit.dumps(document))


def remove_user(path: Path, name: str) -> None:
    """Takes a user out of a user file.

    Raises:
        InvalidInputError: the user is not there.
    """
    text = read_text(path)
    if name not in parse_users(text, str(path)).by_name:
        raise InvalidInputError(f"user {name!r} is not in {path}")
    document = tomlkit.parse(text)
    cast("dict[str, Any]", document["users"]).pop(name)
    write_private(path, tomlkit.dumps(document))


def put_table(document: tomlkit.TOMLDocument, section: str, name: str, table: object) -> None:
    """Sets `[section.name]` of a TOML document."""
    if section not in document:
        document[section] = tomlkit.table(is_super_table=True)
    cast("dict[str, Any]", document[section])[name] = table


def write_private(path: Path, text: str) -> None:
    """Replaces a file in one step; a new one can be read by its owner only."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidInputError(f"{str(path)!r} cannot be written: {error.strerror}") from None
