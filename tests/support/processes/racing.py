"""Threads that write and read at the same time, and the checks of their readers."""

import threading
from collections.abc import Callable, Mapping


class Worker(threading.Thread):
    """Runs `work` in a thread; `end` raises its failure."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._failure: BaseException | None = None

    def work(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - `end` raises it
            self._failure = error

    def end(self) -> None:
        """Wait until the work is done; raises what it raised."""
        self.join()
        if self._failure is not None:
            raise self._failure


class Maintenance(Worker):
    """Writes ever higher numbers, and records the last one acknowledged."""

    acknowledged = 0


class Reader(Worker):
    """Looks in several ways in turn, until nothing was written meanwhile; no look goes back.

    Args:
        maintenance: what goes on meanwhile.
        looks: by their names; each gives the number that it found everywhere.
    """

    def __init__(self, maintenance: Maintenance, looks: Mapping[str, Callable[[], int]]) -> None:
        super().__init__()
        self._maintenance = maintenance
        self._looks = looks

    def work(self) -> None:
        seen, is_over = 0, False
        while not is_over:
            is_over = not self._maintenance.is_alive()
            for name, look in self._looks.items():
                acknowledged = self._maintenance.acknowledged
                newest = look()
                assert newest >= seen, f"{name}: {newest} after {seen} was seen"
                assert newest >= acknowledged, f"{name}: {newest} after {acknowledged} was acknowledged"
                seen = newest


def run_race(*workers: Worker) -> None:
    """Run workers at the same time; raise the failure of any of them."""
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.end()
