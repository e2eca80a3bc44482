"""A real gateway in a process of its own, and the ADBC client that talks to it."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow as pa
from adbc_driver_flightsql import DatabaseOptions

from tests.support.processes.forks import CommandProcess

# Longer than a server drains by default.
_PATIENCE_SECONDS = 120
_URI = re.compile(r"grpc(\+tls)?://\S+:\d+")


class GatewayProcess:
    """``lance-gateway serve`` on a free port; ended by its process id."""

    def __init__(self, root: Path, *options: str) -> None:
        self._child = CommandProcess(["serve", "--root", str(root), "--port", "0", *options])
        self._errors: list[str] = []
        self._drain = threading.Thread(target=self._errors.extend, args=(self._child.stderr,), daemon=True)
        self._drain.start()
        line = self._child.stdout.readline()
        found = _URI.search(line)
        if found is None:
            self.stop()
            raise RuntimeError(f"the gateway did not start: {line!r} {''.join(self._errors)}")
        self.uri = found.group(0)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def log(self) -> str:
        """What the server has written on stderr so far."""
        return "".join(self._errors)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._child.kill()
        self._child.wait()

    def stop(self) -> int:
        """Ask the server to drain and stop; its exit code is returned."""
        self._child.send_signal(signal.SIGTERM)
        try:
            return self._child.wait(timeout=_PATIENCE_SECONDS)
        finally:
            # Whatever happened, the tests to come don't meet what is left of it.
            self.kill()
            self._drain.join()
            self._child.stdout.close()
            self._child.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextmanager
def open_connection(uri: str) -> Iterator[Any]:
    """Return an ADBC connection to a gateway that keeps its session's cookie."""
    cookies = {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}
    with flightsql.connect(uri, db_kwargs=cookies, autocommit=True) as connection:
        yield connection


def fetch(connection: Any, sql: str, parameters: tuple[Any, ...] = ()) -> pa.Table:
    """Run one statement over ADBC and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return cursor.fetch_arrow_table()
