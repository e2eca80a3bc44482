"""Clients that follow the changes of a table, in a process of their own, and note when they saw each key."""

import multiprocessing as mp
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

import numpy as np
import numpy.typing as npt
from pyarrow import flight

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.queries import build_following
from benchmarks.servers.flight_client import build_descriptor

_PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.01

Seconds = npt.NDArray[np.float64]


class Followers:
    """Followers at work."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def find_moments(self, keys: Sequence[int]) -> Seconds:
        """Wait until all followers have seen the keys; return when (`time.perf_counter`), a row for each key.

        Raises:
            WrongAnswerError: a follower failed, or did not see one of them.
        """
        self._pipe.send(list(keys))
        answer = self._pipe.recv()
        if isinstance(answer, str):
            raise WrongAnswerError(f"a follower failed: {answer}")
        return np.asarray(answer)


@contextmanager
def follow(uri: str, since: int, *, count: int) -> Iterator[Followers]:
    """Start followers of the table; they end with the block.

    Args:
        uri: of the server.
        since: version of the base table.
        count: how many.
    """
    ours, theirs = mp.Pipe()
    process = mp.get_context("spawn").Process(target=_run, args=(theirs, uri, since, count), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Followers(ours)
    finally:
        process.terminate()
        process.join()
        ours.close()


class _Sight:
    """What the followers of a process have seen."""

    def __init__(self) -> None:
        self.moments: dict[int, list[float]] = defaultdict(list)
        self.problem: str | None = None

    def follow(self, uri: str, since: int) -> None:
        """Read one stream without an end."""
        try:
            with flight.connect(uri) as client:
                (endpoint,) = client.get_flight_info(build_descriptor(build_following(since))).endpoints
                for chunk in client.do_get(endpoint.ticket):
                    now = time.perf_counter()
                    for key in chunk.data.column("id").to_pylist():
                        self.moments[key].append(now)
        except Exception as error:  # noqa: BLE001 - the parent process raises it
            self.problem = repr(error)

    def wait(self, keys: Sequence[int], count: int) -> list[list[float]] | str:
        """Return when each follower saw each key, or what went wrong."""
        ends_at = time.perf_counter() + _PATIENCE_SECONDS
        while any(len(self.moments[key]) < count for key in keys):
            if self.problem is not None:
                return self.problem
            if time.perf_counter() > ends_at:
                return f"a key was not seen for {_PATIENCE_SECONDS:g} s"
            time.sleep(_LOOK_SECONDS)
        return [self.moments[key] for key in keys]


def _run(pipe: Connection, uri: str, since: int, count: int) -> None:
    sight = _Sight()
    for _ in range(count):
        threading.Thread(target=sight.follow, args=(uri, since), daemon=True).start()
    while True:
        try:
            keys = pipe.recv()
        except EOFError:
            return
        pipe.send(sight.wait(keys, count))
