"""Gateways and cursors of the families that write."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql

from benchmarks.server import gateway_server
from benchmarks.write_table import WriteShape, create_table


@contextmanager
def served(root: Path, shape: WriteShape) -> Iterator[Callable[[], flight_sql.Cursor]]:
    """Makes a table, serves it, and gives cursors of one connection."""
    create_table(root, shape)
    with connected_cursors(root) as cursors:
        yield cursors


@contextmanager
def connected_cursors(root: Path) -> Iterator[Callable[[], flight_sql.Cursor]]:
    """Serves a root, and gives cursors of one connection."""
    with ExitStack() as stack:
        server = stack.enter_context(gateway_server(root))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        yield lambda: stack.enter_context(connection.cursor())
