"""A cache keeps what was asked for last, within its budget."""

import pytest

from lance_gateway.planner.tables.sources.caches import ByteCache


def kept(cache: ByteCache, *keys: str) -> list[str]:
    """Those of the keys that are there, without their being asked for."""
    return [key for key in keys if key in cache._entries]


def test_what_was_not_asked_for_longest_leaves_first() -> None:
    cache = ByteCache(3)
    for key in "abc":
        cache.put(key, key.upper(), 1)
    assert cache.get("a") == "A"
    cache.put("d", "D", 1)
    assert kept(cache, *"abcd") == ["a", "c", "d"]
    cache.put("e", "E", 2)
    assert kept(cache, *"abcde") == ["d", "e"]
    assert cache.nbytes == 3


def test_a_value_takes_the_place_of_the_one_before() -> None:
    cache = ByteCache(10)
    cache.put("a", "small", 2)
    cache.put("a", "large", 9)
    assert (cache.get("a"), cache.nbytes) == ("large", 9)


def test_what_is_larger_than_the_budget_is_handed_out_and_not_kept() -> None:
    cache = ByteCache(10)
    cache.put("a", "A", 10)
    assert cache.compute("b", lambda: "B", lambda _: 11) == "B"
    assert (cache.get("a"), cache.get("b"), cache.nbytes) == ("A", None, 10)


def test_a_value_is_computed_once() -> None:
    cache, made = ByteCache(10), iter("AB")
    assert [cache.compute("a", lambda: next(made), lambda _: 1) for _ in range(2)] == ["A", "A"]
    assert (cache.hits, cache.misses) == (1, 1)


def test_nothing_is_kept_of_what_failed() -> None:
    cache = ByteCache(10)
    with pytest.raises(ZeroDivisionError):
        cache.compute("a", lambda: 1 // 0, lambda _: 1)
    assert cache.compute("a", lambda: 2, lambda _: 1) == 2


def test_many_values_share_the_budget_as_one_after_another_do() -> None:
    cache = ByteCache(3)
    cache.put_many([("a", "A", 1), ("b", "B", 4), ("c", "C", 1), ("d", "D", 2)])
    assert cache.get_many(["a", "b", "c", "d"]) == [None, None, "C", "D"]
    assert (cache.nbytes, cache.hits, cache.misses) == (3, 2, 2)
