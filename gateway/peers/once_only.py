"""Requests that may arrive twice and are done once."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from memwal.errors import InvalidInputError

T = TypeVar("T")


class Once(Generic[T]):
    """Remembers what became of requests, by their id, for a while; safe to share between threads.

    Nothing is forgotten before its time, however much arrives: a request that came again would be done again.

    Args:
        seconds: how long an outcome is remembered.
        clock: seconds, never going back.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        if seconds <= 0:
            raise InvalidInputError(f"outcomes are remembered for {seconds} s: choose more than 0")
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._outcomes: OrderedDict[bytes, tuple[float, Future[T]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._outcomes)

    def do(self, request_id: bytes, work: Callable[[], T], patience: float) -> T:
        """Do the work of a request, or wait for what another call of the same request makes of it.

        Args:
            request_id: of the request.
            work: returns its outcome; what it raises is the outcome, too.
            patience: seconds to wait for the other call.

        Raises:
            TimeoutError: the other call takes longer.
        """
        with self._lock:
            now = self._clock()
            while self._outcomes and next(iter(self._outcomes.values()))[0] < now - self._seconds:
                self._outcomes.popitem(last=False)
            known = self._outcomes.get(request_id)
            mine: Future[T] = Future()
            if known is None:
                self._outcomes[request_id] = now, mine
        if known is not None:
            return known[1].result(patience)
        try:
            mine.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the outcome of whoever asks
            mine.set_exception(error)
        return mine.result()
