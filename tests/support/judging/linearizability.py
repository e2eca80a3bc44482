"""Checks whether some order of operations explains a concurrent history of one register.

The register holds a value, or None when it is absent. The search is Wing and Gong's with memoisation: of the
operations that could be next, try each, and never the same set of operations with the same value twice. Keys
are checked one by one, since registers that are linearizable each are so together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, TypeAlias

Value: TypeAlias = int | None
Kind: TypeAlias = Literal["read", "write", "delete", "swap", "add", "insert"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one key as its client saw it.

    Attributes:
        kind: ``read`` answered ``result``; ``write`` put ``argument``; ``delete`` removed the value; ``swap``
            put ``argument`` where the value was ``expected``; ``add`` added ``argument`` to a value that is
            there; ``insert`` put ``argument`` where no value was.
        result: What was read, or how many rows were affected; None for a change whose client learnt nothing
            of the count.
        invoked: Before it was sent.
        returned: After its answer came; infinite when the outcome is unknown, so that it may have happened at
            any time since, or may never happen.
        client: Who sent it, for messages.
    """

    kind: Kind
    invoked: float
    returned: float
    argument: Value = None
    expected: Value = None
    result: Value = None
    client: str = ""

    @property
    def is_pending(self) -> bool:
        return self.returned == inf

    def apply(self, value: Value) -> tuple[bool, Value]:
        """Return whether the operation explains its result at this value, and the value after it."""
        match self.kind:
            case "read":
                return self.result == value, value
            case "write":
                affected, after = 1, self.argument
            case "delete":
                affected, after = int(value is not None), None
            case "swap":
                hit = value is not None and value == self.expected
                affected, after = int(hit), self.argument if hit else value
            case "add":
                affected, after = int(value is not None), _add(value, self.argument)
            case "insert":
                affected, after = int(value is None), self.argument if value is None else value
        return self.is_pending or self.result is None or self.result == affected, after


def _add(value: Value, argument: Value) -> Value:
    return None if value is None else value + (argument or 0)


def is_linearizable(history: Iterable[Operation], initial: Value = None) -> bool:
    """Return whether some order of the operations explains every result and keeps their order in time."""
    # A read that got no answer says nothing.
    operations = sorted(
        (one for one in history if not (one.kind == "read" and one.is_pending)), key=lambda one: one.invoked
    )
    required = sum(1 << number for number, one in enumerate(operations) if not one.is_pending)
    seen: set[tuple[int, Value]] = set()
    stack = [(0, initial)]
    while stack:
        done, value = stack.pop()
        if done & required == required:
            return True
        if (done, value) in seen:
            continue
        seen.add((done, value))
        stack.extend(_list_next_states(operations, done, value))
    return not required


def _list_next_states(operations: Sequence[Operation], done: int, value: Value) -> list[tuple[int, Value]]:
    """Return the states after each operation that may be next."""
    first = (~done & (done + 1)).bit_length() - 1  # all before it are done
    earliest = inf
    candidates: list[int] = []
    for number in range(first, len(operations)):
        if done >> number & 1:
            continue
        one = operations[number]
        if one.invoked > earliest:
            break
        earliest = min(earliest, one.returned)
        candidates.append(number)
    reached = []
    for number in candidates:
        one = operations[number]
        if one.invoked > earliest:
            continue
        explains, after = one.apply(value)
        if explains and (one.kind == "read" or (one.result == 0 and not one.is_pending)):
            return [(done | 1 << number, value)]  # it never changes anything, so it may as well be next
        if explains:
            reached.append((done | 1 << number, after))
    return reached


def check_registers(
    histories: Mapping[object, Sequence[Operation]], initial: Mapping[object, Value] | None = None
) -> None:
    """Check that every key's history is linearizable; fail with the shortest prefix that is not."""
    for key, history in histories.items():
        start = (initial or {}).get(key)
        if not is_linearizable(history, start):
            raise AssertionError(
                f"key {key!r} (first {start!r}) is not linearizable:\n"
                f"{_find_shortest_failure(history, start)}"
            )


def _find_shortest_failure(history: Sequence[Operation], initial: Value) -> str:
    """Return the end of the shortest prefix of a history, by order of answers, that is not linearizable."""
    ordered = sorted(history, key=lambda one: (one.returned, one.invoked))
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if is_linearizable(_cut_history(ordered, middle), initial):
            low = middle + 1
        else:
            high = middle
    start = max(low - 12, 0)
    return "\n".join(map(str, ordered[start:low]))


def _cut_history(ordered: Sequence[Operation], answered: int) -> list[Operation]:
    """Return the operations up to a number of answers; those without an answer by then are pending."""
    if not answered:
        return []
    end = ordered[answered - 1].returned
    pending = [
        Operation(one.kind, one.invoked, inf, one.argument, one.expected, None, one.client)
        for one in ordered[answered:]
        if one.invoked <= end
    ]
    return [*ordered[:answered], *pending]
