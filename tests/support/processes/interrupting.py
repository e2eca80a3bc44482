"""What a job does to storage and to Lance, call by call, and something that happens at one of the calls.

A call of ours to storage is one call, and so is one of the methods of Lance that jobs use: what Lance writes
within it cannot be told apart here.
"""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock

import lance

from lance_gateway.memwal.storage.local import LocalBackend

When = Literal["before", "after"]

_STORAGE = {
    "read": False,
    "exists": False,
    "identities": False,
    "list": False,
    "directories": False,
    "files": False,
    "put": True,
    "put_if_absent": True,
    "delete": True,
    "delete_each": True,
    "delete_below": True,
}
_DATASET = {
    "to_table": False,
    "to_batches": False,
    "cleanup_old_versions": True,
    "commit": True,
    "create_index": True,
    "create_index_uncommitted": True,
    "create_scalar_index": True,
    "commit_existing_index_segments": True,
    "delete": True,
    "drop_index": True,
    "merge_existing_index_segments": True,
    "merge_index_metadata": True,
    "update_config": True,
}
_MODULE = sys.modules["lance.dataset"]


class KilledError(BaseException):
    """Ends a job where it is; nobody catches it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        name: of the method, and what it was called with.
        writes: whether it may change what is stored.
        is_lances: whether it is Lance's, and not one of our own to storage.
    """

    name: str
    writes: bool
    is_lances: bool


@dataclass
class Calls:
    """The calls that were made so far."""

    made: list[Call] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    is_busy: bool = False


@contextmanager
def watch_calls(happens: Callable[[int, Call, When], None] = lambda *_: None) -> Iterator[Calls]:
    """Call `happens` before and after each call, numbered from 0; what it calls itself is not counted."""
    calls = Calls()

    def wrap(name: str, original: Callable[..., Any], *, writes: bool, is_lances: bool) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*arguments: Any, **named: Any) -> Any:
            if calls.is_busy:
                return original(*arguments, **named)
            with calls.lock:
                number = len(calls.made)
                shown = " ".join(str(one) for one in arguments if isinstance(one, str))
                made = Call(f"{name} {shown}", writes, is_lances)
                calls.made.append(made)
            _pause_counting(calls, lambda: happens(number, made, "before"))
            answer = original(*arguments, **named)
            _pause_counting(calls, lambda: happens(number, made, "after"))
            return answer

        return call

    with ExitStack() as stack:
        for owner, names in _list_watched_names():
            for name, writes in names.items():
                given = vars(owner)[name]
                kept = staticmethod if isinstance(given, staticmethod) else lambda function: function
                function = getattr(given, "__func__", given)
                is_lances = owner is not LocalBackend
                replaced = kept(wrap(name, function, writes=writes, is_lances=is_lances))
                stack.enter_context(mock.patch.object(owner, name, replaced))
        yield calls


def _list_watched_names() -> tuple[tuple[Any, dict[str, bool]], ...]:
    return (
        (LocalBackend, _STORAGE),
        (lance, {"dataset": False}),
        (_MODULE.LanceDataset, _DATASET),
        (_MODULE.MergeInsertBuilder, {"execute": True, "execute_uncommitted": True}),
        (_MODULE.DatasetOptimizer, {"compact_files": True, "optimize_indices": True}),
    )


def _pause_counting(calls: Calls, happens: Callable[[], None]) -> None:
    with calls.lock:
        calls.is_busy = True
        try:
            happens()
        finally:
            calls.is_busy = False


def kill_at(number: int, when: When) -> Callable[[int, Call, When], None]:
    """End the job at that call."""

    def happens(called: int, call: Call, now: When) -> None:
        if (called, now) == (number, when):
            raise KilledError(f"{when} call {number}: {call.name}")

    return happens
