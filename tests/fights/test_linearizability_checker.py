"""The judge of concurrent histories, judged by histories that are known to be good or bad."""

import itertools
import random
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.judging.linearizability import Operation, check_registers, is_linearizable


def read(invoked: float, returned: float, result: int | None) -> Operation:
    return Operation("read", invoked, returned, result=result)


def write(invoked: float, returned: float, argument: int) -> Operation:
    return Operation("write", invoked, returned, argument)


def delete(invoked: float, returned: float, result: int | None = None) -> Operation:
    return Operation("delete", invoked, returned, result=result)


def swap(invoked: float, returned: float, expected: int, argument: int, result: int | None) -> Operation:
    return Operation("swap", invoked, returned, argument, expected, result)


def add(invoked: float, returned: float, result: int | None = 1) -> Operation:
    return Operation("add", invoked, returned, 1, result=result)


def insert(invoked: float, returned: float, argument: int, result: int) -> Operation:
    return Operation("insert", invoked, returned, argument, result=result)


GOOD = {
    "nothing": [],
    "a read of nothing": [read(0, 1, None)],
    "one after the other": [write(0, 1, 5), read(2, 3, 5), delete(4, 5, 1), read(6, 7, None)],
    "a read that overlaps the write sees the old value": [write(0, 10, 5), read(1, 2, None)],
    "a read that overlaps the write sees the new value": [write(0, 10, 5), read(1, 2, 5)],
    "overlapping writes, in the order that reads show": [
        write(0, 10, 1),
        write(0, 10, 2),
        read(11, 12, 1),
        read(13, 14, 1),
    ],
    "of two swaps one hits": [write(0, 1, 1), swap(2, 9, 1, 2, 1), swap(2, 9, 1, 3, 0), read(10, 11, 2)],
    "of two inserts one hits": [insert(0, 5, 1, 1), insert(0, 5, 2, 0), read(6, 7, 1)],
    "an unknown write that happened": [write(0, 1, 1), write(2, inf, 2), read(3, 4, 1), read(5, 6, 2)],
    "an unknown write that never happened": [write(0, 1, 1), write(2, inf, 2), read(3, 4, 1)],
    "an unknown write that happens late": [write(0, inf, 2), write(1, 2, 1), read(3, 4, 1), read(5, 6, 2)],
    "a read without answer": [write(0, 1, 1), read(2, inf, 7)],
    "three concurrent increments": [write(0, 1, 0), add(2, 9), add(2, 9), add(2, 9), read(10, 11, 3)],
    "a write of what is there already, after another one": [
        write(0, 1, 1),
        write(2, 9, 1),
        write(2, 9, 2),
        read(10, 11, 1),
    ],
    "a swap of unknown count that hits late": [
        write(0, 1, 1),
        swap(2, 9, 2, 3, None),
        write(2, 9, 2),
        read(10, 11, 3),
    ],
    "an increment of nothing": [add(0, 1, 0), read(2, 3, None)],
}

BAD = {
    "a stale read": [write(0, 1, 5), read(2, 3, None)],
    "a value from nowhere": [read(0, 1, 5)],
    "back in time": [write(0, 10, 5), read(1, 2, 5), read(3, 4, None)],
    "a lost increment": [write(0, 1, 0), add(2, 9), add(2, 9), read(10, 11, 1)],
    "both swaps hit": [write(0, 1, 1), swap(2, 9, 1, 2, 1), swap(2, 9, 1, 3, 1)],
    "a swap that should have hit": [write(0, 1, 1), swap(2, 3, 1, 2, 0)],
    "two readers disagree about the order": [
        write(0, 10, 1),
        write(0, 10, 2),
        read(11, 12, 1),
        read(13, 14, 2),
    ],
    "risen from the dead": [write(0, 1, 5), delete(2, 3, 1), read(4, 5, 5)],
    "a delete of what was not there counts": [delete(0, 1, 1)],
    "an unknown write that happens twice": [
        write(0, 1, 1),
        write(2, inf, 2),
        read(3, 4, 2),
        write(5, 6, 1),
        read(7, 8, 2),
    ],
    "an unknown write seen before it was sent": [read(0, 1, 2), write(2, inf, 2)],
    "both inserts hit": [insert(0, 5, 1, 1), insert(0, 5, 2, 1)],
}


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_good_histories_are_linearizable(history: list[Operation]):
    assert is_linearizable(history)


@pytest.mark.parametrize("history", BAD.values(), ids=BAD)
def test_bad_histories_are_not(history: list[Operation]):
    assert not is_linearizable(history)
    with pytest.raises(AssertionError, match="key 'k'"):
        check_registers({"k": history})


def _operations() -> st.SearchStrategy[list[Operation]]:
    times = st.tuples(st.integers(0, 6), st.integers(1, 4))
    small = st.integers(0, 2)
    kinds = st.sampled_from(("read", "write", "delete", "swap", "add", "insert"))

    def made(kind: str, when: tuple[int, int], one: int, two: int, result: int | None) -> Operation:
        end = inf if kind != "read" and when[1] == 4 else sum(when)
        return Operation(kind, when[0], end, one, two, result)  # type: ignore[arg-type]

    one = st.builds(made, kinds, times, small, small, st.none() | small)
    return st.lists(one, max_size=5)


def _by_brute_force(history: list[Operation]) -> bool:
    """Every order of every choice of what happened."""
    pending = [one for one in history if one.is_pending]
    certain = [one for one in history if not one.is_pending]
    for count in range(len(pending) + 1):
        for happened in itertools.combinations(pending, count):
            if any(_explains(order) for order in itertools.permutations([*certain, *happened])):
                return True
    return False


def _explains(order: tuple[Operation, ...]) -> bool:
    if any(later.returned < one.invoked for at, one in enumerate(order) for later in order[at + 1 :]):
        return False
    value = None
    for one in order:
        explains, value = one.apply(value)
        if not explains:
            return False
    return True


@pytest.mark.slow
@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(_operations())
def test_the_search_agrees_with_trying_every_order(history: list[Operation]):
    assert is_linearizable(history) == _by_brute_force(history)


@pytest.mark.slow
def test_a_long_history_of_many_clients_is_judged_at_once():
    random_source = random.Random(3)
    value, clock, history = None, 0.0, []
    for number in range(2000):
        clock += 1
        started, ended = clock - random_source.random() * 6, clock + random_source.random() * 6
        if random_source.random() < 0.5:
            history.append(read(started, ended, value))
        else:
            value = number
            history.append(write(started, ended, number))
    assert is_linearizable(history)
    last = max(history, key=lambda one: one.returned).returned
    assert not is_linearizable([*history, read(last + 1, last + 2, -1)])
