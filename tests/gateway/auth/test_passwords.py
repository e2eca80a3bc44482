"""Passwords: right, wrong, recognised, changed; and how many are verified at once."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from types import MappingProxyType

import pytest
from argon2 import PasswordHasher

from lance_gateway.gateway.auth.credentials import Basic, Throttle, UnauthenticatedError
from lance_gateway.gateway.auth.users import MAX_BYTES, Passwords, User, Users, hash_password
from lance_gateway.memwal.errors import InvalidInputError, UnavailableError
from tests.gateway.auth.conftest import PASSWORD, QUICK, Clock


class CountingHasher(PasswordHasher):
    """Counts verifications, and lets a test hold them up."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.verified = 0
        self.free = threading.Event()
        self.free.set()

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:
        self.verified += 1
        assert self.free.wait(120)
        return super().verify(hash, password)


class UserFile:
    """What a user file says, as a test changes it."""

    def __init__(self, **hashes: str | None) -> None:
        self.hashes: Mapping[str, str | None] = hashes

    def __call__(self) -> Users:
        by_name = {name: User(name, value) for name, value in self.hashes.items()}
        return Users(MappingProxyType(by_name), MappingProxyType({}))


@pytest.fixture
def file() -> UserFile:
    return UserFile(alice=QUICK.hash(PASSWORD), machine=None)


@pytest.fixture
def hasher() -> CountingHasher:
    return CountingHasher()


@pytest.fixture
def passwords(file: UserFile, hasher: CountingHasher, clock: Clock) -> Passwords:
    throttle = Throttle("user", 3, 60.0, clock=clock)
    return Passwords(file, throttle, hasher=hasher, max_wait=0.05, clock=clock)


def test_a_right_password_is_recognised_without_hashing_it_again(
    passwords: Passwords, hasher: CountingHasher
) -> None:
    for _ in range(5):
        assert passwords.verify(Basic("alice", PASSWORD)).name == "alice"
    assert hasher.verified == 1


def test_a_wrong_password_is_never_recognised(passwords: Passwords, hasher: CountingHasher) -> None:
    passwords.verify(Basic("alice", PASSWORD))
    for _ in range(2):
        with pytest.raises(UnauthenticatedError, match="name or the password is wrong"):
            passwords.verify(Basic("alice", PASSWORD[:-1]))
    assert hasher.verified == 3


@pytest.mark.parametrize("name", ["nobody", "machine", "", "alice\0", "ALICE"])
def test_an_unknown_user_costs_and_reads_like_a_wrong_password(
    passwords: Passwords, hasher: CountingHasher, name: str
) -> None:
    with pytest.raises(UnauthenticatedError) as unknown:
        passwords.verify(Basic(name, PASSWORD))
    assert hasher.verified == 1
    with pytest.raises(UnauthenticatedError) as wrong:
        passwords.verify(Basic("alice", "wrong"))
    assert str(unknown.value) == str(wrong.value)


def test_a_changed_password_is_no_longer_recognised(passwords: Passwords, file: UserFile) -> None:
    passwords.verify(Basic("alice", PASSWORD))
    file.hashes = {"alice": QUICK.hash("something else")}
    with pytest.raises(UnauthenticatedError):
        passwords.verify(Basic("alice", PASSWORD))
    assert passwords.verify(Basic("alice", "something else")).name == "alice"
    file.hashes = {}
    with pytest.raises(UnauthenticatedError):
        passwords.verify(Basic("alice", "something else"))


def test_a_guess_does_not_learn_that_it_was_right_while_it_is_throttled(
    passwords: Passwords, hasher: CountingHasher, clock: Clock
) -> None:
    passwords.verify(Basic("alice", PASSWORD))
    for _ in range(3):
        with pytest.raises(UnauthenticatedError):
            passwords.verify(Basic("alice", "wrong"))
    verified = hasher.verified
    with pytest.raises(UnauthenticatedError, match="too many failed attempts by this user: wait 20 s"):
        passwords.verify(Basic("alice", PASSWORD))
    assert hasher.verified == verified
    clock.now += 20
    assert passwords.verify(Basic("alice", PASSWORD)).name == "alice"


@pytest.mark.slow
def test_a_hash_of_the_library_s_default_strength_is_verified() -> None:
    users = UserFile(alice=hash_password(PASSWORD))
    assert Passwords(users, Throttle("user", 3, 60.0)).verify(Basic("alice", PASSWORD)).name == "alice"


def test_who_logs_in_at_the_same_time_is_verified_once(
    file: UserFile, hasher: CountingHasher, clock: Clock
) -> None:
    passwords = Passwords(file, Throttle("user", 3, 60.0, clock=clock), hasher=hasher, clock=clock)
    hasher.free.clear()
    with ThreadPoolExecutor(12) as pool:
        logins = [pool.submit(passwords.verify, Basic("alice", PASSWORD)) for _ in range(12)]
        hasher.free.set()
        assert {login.result().name for login in logins} == {"alice"}
    # Two are verified side by side; the others wait, and are recognised.
    assert hasher.verified <= 2


def test_logins_wait_for_others_only_for_a_while(passwords: Passwords, hasher: CountingHasher) -> None:
    hasher.free.clear()
    with ThreadPoolExecutor(8) as pool:
        logins = [pool.submit(passwords.verify, Basic("alice", PASSWORD)) for _ in range(8)]
        # Two are held up; the first to end is one of those that waited for them.
        with pytest.raises(UnavailableError, match="too many logins at once"):
            next(as_completed(logins)).result()
        hasher.free.set()


def test_an_endless_password_is_not_hashed(passwords: Passwords, hasher: CountingHasher) -> None:
    with pytest.raises(UnauthenticatedError, match="wrong"):
        passwords.verify(Basic("alice", "x" * (MAX_BYTES + 1)))
    assert hasher.verified == 0


def test_passwords_that_cost_nothing_make_no_failure_forgotten(
    file: UserFile, hasher: CountingHasher, clock: Clock
) -> None:
    """What is remembered is bounded: failures must cost those who would wash others away with them."""
    passwords = Passwords(file, Throttle("user", 3, 60.0, capacity=10, clock=clock), hasher=hasher)
    for _ in range(3):
        with pytest.raises(UnauthenticatedError, match="wrong"):
            passwords.verify(Basic("alice", "a guess"))
    for number in range(20):
        with pytest.raises(UnauthenticatedError, match="wrong"):
            passwords.verify(Basic(f"nobody {number}", "x" * (MAX_BYTES + 1)))
    with pytest.raises(UnauthenticatedError, match="too many failed attempts"):
        passwords.verify(Basic("alice", "one more"))


@pytest.mark.parametrize("password", ["", "short", "x" * (MAX_BYTES + 1)])
def test_a_new_password_has_a_length(password: str) -> None:
    with pytest.raises(InvalidInputError, match="8 characters at least"):
        hash_password(password, QUICK)


def test_so_many_logins_wait_for_others_and_no_more(file: UserFile, hasher: CountingHasher) -> None:
    passwords = Passwords(file, Throttle("user", 3, 60.0), hasher=hasher, max_wait=120.0, max_waiting=4)
    hasher.free.clear()
    with ThreadPoolExecutor(8) as pool:
        logins = [pool.submit(passwords.verify, Basic("alice", PASSWORD)) for _ in range(8)]
        refused = list(islice(as_completed(logins), 4))
        for login in refused:
            with pytest.raises(UnavailableError, match="too many logins at once"):
                login.result()
        hasher.free.set()
        assert {login.result().name for login in logins if login not in refused} == {"alice"}
