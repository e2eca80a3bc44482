"""User files: what they may say, and how users get in and out."""

import stat
from pathlib import Path

import pytest

from lance_gateway.gateway.auth.users import User, find_user, parse_users, remove_user, write_user
from lance_gateway.memwal.errors import InvalidInputError
from tests.gateway.auth.conftest import QUICK

HASH = QUICK.hash("a password")


def test_a_user_file_is_read() -> None:
    text = f"""
    # People
    [users.alice]
    password = "{HASH}"
    roles = ["analyst", "admin"]

    [users."svc@example.org"]
    certificates = ["svc.example.org"]
    """
    users = parse_users(text, "users.toml")
    assert users.by_name["alice"] == User("alice", HASH, (), frozenset({"analyst", "admin"}))
    assert users.by_certificate["svc.example.org"].name == "svc@example.org"
    assert users.by_name["svc@example.org"].password_hash is None
    assert HASH not in repr(users)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[users.a]\npassword = 'secret'", "user 'a': the password is not an argon2 hash"),
        ("[users.a]\npasword = 'secret'", "users.a.pasword: there is no such key"),
        ("[user.a]", "user: there is no such key"),
        ("[users.a]\nroles = 'admin'", "users.a.roles: "),
        ("[users.'']", "name the user"),
        ("[users.'a:b']", "end a name at a colon"),
        ('[users."a\\nb"]', "all printable"),
        (
            "[users.a]\ncertificates = ['c']\n[users.b]\ncertificates = ['c']",
            "'c' is assigned to the users 'a' and 'b'",
        ),
        ("[users.a]\n[users.a]", "is not valid TOML"),
    ],
)
def test_nonsense_is_refused_without_showing_a_secret(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint) as raised:
        parse_users(text, "users.toml")
    assert "users.toml" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_users_are_added_changed_and_removed_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    write_user(path, User("alice", HASH, (), frozenset({"b", "a"})))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("# Who may come in\n" + path.read_text())
    path.chmod(0o640)
    write_user(path, User('o"dd ü', HASH))
    with pytest.raises(InvalidInputError, match=r"is in .* already: use --replace"):
        write_user(path, User("alice", None, ("c",)))
    write_user(path, User("alice", None, ("c",)), replace=True)
    assert find_user(path, "alice") == User("alice", None, ("c",))
    assert find_user(path, 'o"dd ü') == User('o"dd ü', HASH)
    remove_user(path, 'o"dd ü')
    assert find_user(path, 'o"dd ü') is None
    with pytest.raises(InvalidInputError, match="'nobody' is not in"):
        remove_user(path, "nobody")
    assert path.read_text().startswith("# Who may come in\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["users.toml"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"none/users.toml' cannot be written: No such file"):
        write_user(tmp_path / "none" / "users.toml", User("alice", HASH))
