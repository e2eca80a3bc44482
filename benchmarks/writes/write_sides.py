"""Gateways and cursors of the families that write."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql

from benchmarks.servers.server import start_gateway
from benchmarks.tables.write_table import WriteShape, create_table


@contextmanager
def serve_table(root: Path, shape: WriteShape) -> Iterator[Callable[[], flight_sql.Cursor]]:
    """Make a table, serve it, and give cursors of one connection."""
    create_table(root, shape)
    with open_cursors(root) as cursors:
        yield cursors


@contextmanager
def open_cursors(root: Path) -> Iterator[Callable[[], flight_sql.Cursor]]:
    """Serve a root, and give cursors of one connection."""
    with ExitStack() as stack:
        server = stack.enter_context(start_gateway(root))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        yield lambda: stack.enter_context(connection.cursor())
