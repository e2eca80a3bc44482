"""What Python keeps of the threads that gRPC starts.

To Python, a thread that it did not start is a new one at each visit: it gets a state and some freshly mapped
memory, and both are gone when it leaves. Flight's threads visit several times a call, and beside a short call
that costs as much as serving it. So a thread that has come keeps its state until the thread has ended.
"""

import ctypes
import os
import sys
import threading
from typing import Any

_TASKS = "/proc/self/task"
# States of ended threads, about 20 KB each, that may lie around before anybody looks for them.
_SLACK = 64


def _is_known() -> bool:
    """Whether this is a Python whose states may be deleted by other threads, and a system that lists threads.

    From 3.12 on, deleting a state makes the deleting thread forget its own.
    """
    is_python = sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 11)
    return is_python and os.path.exists(f"{_TASKS}/{threading.get_native_id()}")  # noqa: PTH110 - as below


def _function(name: str, result: type | None, *arguments: type) -> Any:  # noqa: ANN401 - ctypes has no public name for it
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


class _State(ctypes.c_void_p):
    """The address of a state, told apart from an earlier one at the same address by being another object."""


_enter = _function("PyGILState_Ensure", ctypes.c_int)
_current = _function("PyThreadState_Get", _State)
_clear = _function("PyThreadState_Clear", None, _State)
_delete = _function("PyThreadState_Delete", None, _State)


class ThreadStates:
    """The states that are kept; safe to share between threads."""

    def __init__(self) -> None:
        self._is_known = _is_known()
        self._mark = threading.local()
        self._lock = threading.Lock()
        self._kept: dict[int, _State] = {}
        self._most = _SLACK

    def __len__(self) -> int:
        """How many there are, those of ended threads included."""
        return len(self._kept)

    def keep(self) -> None:
        """Keeps the state of the calling thread, which must not be one that Python has started."""
        # The mark is part of the state: it is there as long as the state is.
        if not self._is_known or hasattr(self._mark, "is_kept"):
            return
        self._mark.is_kept = True
        # One visit that never ends; those of Flight are nested in it.
        _enter()
        number, state = threading.get_native_id(), _current()
        with self._lock:
            ended = self._kept.pop(number, None)
            self._kept[number] = state
            is_full = len(self._kept) > self._most
        if ended is not None:
            # The system has given its number again.
            _drop(ended)
        if is_full:
            self._drop_ended()

    def _drop_ended(self) -> None:
        with self._lock:
            known = tuple(self._kept.items())
        for number, state in known:
            # One by one: a listing may leave threads out while others end.
            if not os.path.exists(f"{_TASKS}/{number}"):  # noqa: PTH110 - for each of a hundred threads
                with self._lock:
                    is_its = self._kept.get(number) is state
                    if is_its:
                        del self._kept[number]
                if is_its:
                    _drop(state)
        with self._lock:
            self._most = 2 * len(self._kept) + _SLACK


def _drop(state: _State) -> None:
    """Deletes the state of a thread that has ended."""
    _clear(state)
    _delete(state)


THREADS = ThreadStates()
"""Of this process."""
