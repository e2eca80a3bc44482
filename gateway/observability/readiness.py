"""Whether a gateway should be sent queries."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from memwal.errors import LanceGatewayError
from memwal.storage.files import Storage

# Probes come every few seconds from several sides; storage is asked at most this often.
_KEPT_SECONDS = 1.0
_LISTING_SECONDS = 5.0


class Readiness:
    """Ready once the gateway has started, while the root can be listed, until it is told to stop.

    Args:
        storage: the root.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._state: str | None = "the gateway is starting"
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._listing: Future[str | None] | None = None
        self._known: tuple[float, str | None] | None = None

    def start(self) -> None:
        """From now on queries are welcome."""
        self._state = None

    def drain(self) -> None:
        """From now on nobody should send new queries."""
        self._state = "the gateway is stopping"

    def close(self) -> None:
        """Stops looking."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def reasons(self) -> list[str]:
        """Returns why the gateway is not ready; nothing where it is."""
        return [reason for reason in (self._state, self._unlisted()) if reason is not None]

    def _unlisted(self) -> str | None:
        with self._lock:
            if self._known is not None and time.monotonic() - self._known[0] < _KEPT_SECONDS:
                return self._known[1]
            # A listing that hangs is waited for again, not repeated.
            if self._listing is None:
                self._listing = self._executor.submit(self._list)
            try:
                answer = self._listing.result(_LISTING_SECONDS)
            except TimeoutError:
                return f"{self._storage.uri} was not listed within {_LISTING_SECONDS:g} s"
            self._listing = None
            self._known = (time.monotonic(), answer)
            return answer

    def _list(self) -> str | None:
        try:
            if self._storage.list() or self._storage.exists("")[0]:
                return None
        except (LanceGatewayError, OSError) as error:
            return f"{self._storage.uri} can't be listed: {error}"
        return f"{self._storage.uri} does not exist"
