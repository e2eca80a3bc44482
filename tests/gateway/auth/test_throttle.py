"""How often somebody may fail."""

import pytest

from lance_gateway.gateway.auth.credentials import Throttle, UnauthenticatedError, parse_peer_address
from lance_gateway.memwal.errors import InvalidInputError
from tests.gateway.auth.conftest import Clock


def fail(throttle: Throttle, subject: str, times: int) -> None:
    for _ in range(times):
        throttle.check(subject)
        throttle.record_failure(subject)


def test_failures_are_allowed_up_to_a_number(clock: Clock) -> None:
    throttle = Throttle("user", 5, 60.0, clock=clock)
    fail(throttle, "a", 5)
    with pytest.raises(UnauthenticatedError, match="by this user: wait 12 s"):
        throttle.check("a")
    throttle.check("b")


def test_time_makes_room_evenly(clock: Clock) -> None:
    throttle = Throttle("user", 5, 60.0, clock=clock)
    fail(throttle, "a", 5)
    clock.now += 11.9
    with pytest.raises(UnauthenticatedError):
        throttle.check("a")
    clock.now += 0.1
    fail(throttle, "a", 1)
    with pytest.raises(UnauthenticatedError):
        throttle.check("a")
    clock.now += 60.0
    fail(throttle, "a", 5)


def test_failures_at_the_same_moment_do_not_add_up_for_ever(clock: Clock) -> None:
    throttle = Throttle("user", 2, 10.0, clock=clock)
    # Many that had passed before the first of them failed.
    for _ in range(100):
        throttle.record_failure("a")
    clock.now += 5.0
    throttle.check("a")


def test_success_costs_nothing(clock: Clock) -> None:
    throttle = Throttle("user", 1, 60.0, clock=clock)
    for _ in range(100):
        throttle.check("a")


def test_what_is_remembered_is_bounded(clock: Clock) -> None:
    throttle = Throttle("user", 1, 60.0, capacity=2, clock=clock)
    for subject in "abc":
        fail(throttle, subject, 1)
    throttle.check("a")
    for subject in "bc":
        with pytest.raises(UnauthenticatedError):
            throttle.check(subject)


@pytest.mark.parametrize(("failures", "window"), [(0, 60.0), (1, 0.0)])
def test_a_throttle_allows_something(failures: int, window: float) -> None:
    with pytest.raises(InvalidInputError, match="allow at least 1"):
        Throttle("user", failures, window)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.1.2.3:50412", "10.1.2.3"),
        ("ipv6:%5B::1%5D:50412", "::/64"),
        ("ipv6:[2001:db8:1:2:3:4:5:6]:50412", "2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:50412", "fe80::/64"),
        ("ipv6:%5B::ffff:10.1.2.3%5D:50412", "10.1.2.3"),
        ("ipv4:what:1", "what"),
        ("unix:", "unix"),
        ("", ""),
    ],
)
def test_an_address_is_what_its_owner_cannot_change(peer: str, address: str) -> None:
    assert parse_peer_address(peer) == address
