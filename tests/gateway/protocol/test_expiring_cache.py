"""What the server remembers between calls is bounded in number and in time."""

import pytest

from lance_gateway.gateway.protocol.expiring_cache import ExpiringCache
from lance_gateway.memwal.errors import InvalidInputError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_value_is_kept_until_it_is_taken_out() -> None:
    kept: ExpiringCache[str, int] = ExpiringCache(2, 10)
    kept.put("a", 1)
    assert kept.get("a") == 1
    assert kept.pop("a") == 1
    assert kept.get("a") is None
    assert kept.pop("a") is None


def test_the_value_unused_longest_leaves_first() -> None:
    kept: ExpiringCache[str, int] = ExpiringCache(2, 10)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.get("a")
    kept.put("c", 3)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (1, None, 3)
    assert len(kept) == 2


def test_an_idle_value_is_forgotten_and_a_used_one_is_not() -> None:
    clock = Clock()
    kept: ExpiringCache[str, int] = ExpiringCache(10, 10, clock=clock)
    kept.put("used", 1)
    kept.put("idle", 2)
    clock.now = 8
    kept.get("used")
    clock.now = 15
    assert (kept.get("used"), kept.get("idle")) == (1, None)
    assert len(kept) == 1


@pytest.mark.parametrize(("capacity", "idle_seconds"), [(0, 1.0), (1, 0.0)])
def test_a_place_without_room_or_time_is_refused(capacity: int, idle_seconds: float) -> None:
    with pytest.raises(InvalidInputError, match="must be positive"):
        ExpiringCache(capacity, idle_seconds)


def test_only_a_value_that_is_still_kept_is_replaced() -> None:
    kept: ExpiringCache[str, int] = ExpiringCache(2, 10)
    kept.put("a", 1)
    assert kept.replace("a", 2)
    assert kept.pop("a") == 2
    assert not kept.replace("a", 3)
    assert kept.get("a") is None
