"""What Python keeps of the threads that gRPC starts.

To Python, a thread that it did not start is a new one at each visit: it gets a state and some freshly mapped
memory, and both are gone when it leaves. Flight's threads visit several times a call, and beside a short call
that costs as much as serving it. So a thread that has come keeps its state until the thread has ended.
"""

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

_TASKS = Path("/proc/self/task")
# States of ended threads, about 20 KB each, that may lie around before anybody looks for them.
_SLACK = 64


def _is_known() -> bool:
    """Whether this is a Python whose states may be deleted by other threads, and a system that lists threads.

    From 3.12 on, deleting a state makes the deleting thread forget its own.
    """
    is_python = sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 11)
    return is_python and (_TASKS / str(threading.get_native_id())).exists()


def _function(name: str, result: type | None, *arguments: type) -> Any:  # noqa: ANN401 - ctypes has no public name for it
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


_enter = _function("PyGILState_Ensure", ctypes.c_int)
_current = _function("PyThreadState_Get", ctypes.c_void_p)
_clear = _function("PyThreadState_Clear", None, ctypes.c_void_p)
_delete = _function("PyThreadState_Delete", None, ctypes.c_void_p)


class ThreadStates:
    """The states that are kept; safe to share between threads."""

    def __init__(self) -> None:
        self._is_known = _is_known()
        self._mark = threading.local()
        self._lock = threading.Lock()
        self._kept: dict[int, int] = {}
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
        # Looked up after `known`: a thread that came in between would not be listed, and is alive.
        alive = {int(task.name) for task in _TASKS.iterdir()}
        for number, state in known:
            if number not in alive:
                with self._lock:
                    is_its = self._kept.get(number) == state
                    if is_its:
                        del self._kept[number]
                if is_its:
                    _drop(state)
        with self._lock:
            self._most = 2 * len(self._kept) + _SLACK


def _drop(state: int) -> None:
    """Deletes the state of a thread that has ended."""
    _clear(state)
    _delete(state)


THREADS = ThreadStates()
"""Of this process."""
