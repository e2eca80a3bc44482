"""The identity of a caller."""

from dataclasses import dataclass

from lance_gateway.memwal.errors import InvalidInputError

MAX_NAME_LENGTH = 256


@dataclass(frozen=True, slots=True)
class Identity:
    """A principal.

    Args:
        name: of the user; printable, at most 256 characters.
        roles: what a policy grants to.
        method: how the identity was proven: "password", "token", "jwt", "certificate", or "none".
    """

    name: str
    roles: frozenset[str]
    method: str

    def __post_init__(self) -> None:
        check_name(self.name)


def check_name(name: str) -> str:
    """Return a user's name as it is.

    Raises:
        InvalidInputError: it is empty, too long, or cannot be shown: logs and SQL literals would suffer.
    """
    if not name:
        raise InvalidInputError("an identity without a name: name the user")
    if len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidInputError(
            f"{name[:MAX_NAME_LENGTH]!r} is not a user name: at most {MAX_NAME_LENGTH} "
            "characters, all printable"
        )
    return name


ANONYMOUS = Identity("anonymous", frozenset(), "none")
