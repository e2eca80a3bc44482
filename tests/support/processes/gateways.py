"""Gateways for tests of writing: an engine in this process, or a server over ADBC."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.writing import FencedError, NotOwnerError, WriteOptions
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, PreparedWrite, QueryEngine, SessionSettings
from lance_gateway.planner.scans.settings import parse_shortcuts
from lance_gateway.planner.tables.sources.snapshot import Consistency
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.transactions.transaction import Transaction
from tests.support.processes.servers import GatewayProcess, open_connection

EAGER = WriteOptions(hold_ms=0)
"""Claims what it needs at once, so that tests need not wait for a former owner's time to pass."""


def has_written_nothing(error: UnavailableError) -> bool:
    """Return whether an error promises that nothing was written, so that the statement may be repeated."""
    return isinstance(error, FencedError | NotOwnerError) or "nothing was written" in str(error)


class Gateway(Protocol):
    """Takes statements of any number of threads."""

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement that writes; return the number of affected rows."""

    def write_many(self, sql: str, rows: pa.Table) -> int:
        """Run it once for each row of parameters."""

    def read(self, sql: str, consistency: Consistency = "strong", parameters: Sequence[Any] = ()) -> pa.Table:
        """Run a query."""

    def close(self) -> None: ...


class EngineGateway:
    """An engine in this process."""

    def __init__(
        self, root: Path | Catalog, options: WriteOptions = EAGER, settings: SessionSettings | None = None
    ) -> None:
        catalog = root if isinstance(root, Catalog) else Catalog.open(str(root), writing=options)
        # Tables of tests are small, and histories are to be read from memory as well.
        self.engine = QueryEngine(catalog, resident_rows=0)
        self.settings = settings or SessionSettings()

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        prepared = self.engine.prepare_statement(sql, self.settings)
        assert not isinstance(prepared, PreparedQuery), sql
        return prepared.execute(tuple(map(_encode_scalar, parameters))).affected

    def write_many(self, sql: str, rows: pa.Table) -> int:
        prepared = self.engine.prepare_statement(sql, self.settings)
        assert not isinstance(prepared, PreparedQuery), sql
        return prepared.execute_many(rows).affected

    def read(self, sql: str, consistency: Consistency = "strong", parameters: Sequence[Any] = ()) -> pa.Table:
        return self.run(sql, tuple(map(_encode_scalar, parameters)), consistency=consistency)

    def run(
        self,
        sql: str,
        parameters: tuple[pa.Scalar, ...] = (),
        *,
        consistency: Consistency = "strong",
        pruning: bool = True,
        shortcuts: str = "all",
    ) -> pa.Table:
        """Run a query, for the histories."""
        settings = replace(
            self.settings,
            consistency=consistency,
            region_pruning=pruning,
            shortcuts=parse_shortcuts(shortcuts),
        )
        return self.engine.prepare(sql, settings).execute(parameters).read_all()

    def flush(self, table: str) -> None:
        """Flush what this gateway holds in memory, and let the regions go."""
        self.engine.catalog.table(table).writer().flush()

    def close(self) -> None:
        self.engine.close()


class EngineTransaction:
    """A transaction of an engine in this process."""

    def __init__(self, gateway: EngineGateway, max_bytes: int = 64 << 20) -> None:
        self._gateway = gateway
        self._transaction = Transaction(gateway.engine, max_bytes)
        self.roll_back = self._transaction.roll_back
        self.commit = self._transaction.commit

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement that writes; return the number of affected rows."""
        values = tuple(map(_encode_scalar, parameters))
        return self._write(sql, lambda prepared, control: prepared.execute(values, control).affected)

    def write_many(self, sql: str, rows: pa.Table) -> int:
        """Run it once for each row of parameters."""
        return self._write(sql, lambda prepared, control: prepared.execute_many(rows, control).affected)

    def read(self, sql: str, parameters: tuple[pa.Scalar, ...] = ()) -> pa.Table:
        """Run a query."""
        prepared = self._gateway.engine.prepare(sql, self._gateway.settings)
        return prepared.execute(parameters, control=self._control()).read_all()

    def _write(self, sql: str, execute: Callable[[PreparedWrite, RunControl], int]) -> int:
        prepared = self._gateway.engine.prepare_statement(sql, self._gateway.settings)
        assert not isinstance(prepared, PreparedQuery), sql
        with self._transaction.statement():
            return execute(prepared, self._control())

    def _control(self) -> RunControl:
        control = RunControl()
        control.transaction = self._transaction
        return control


class ServedGateway:
    """A gateway over ADBC; every thread has a connection of its own."""

    def __init__(self, root: Path, *options: str, session: Mapping[str, str] | None = None) -> None:
        self._resources = ExitStack()
        self.process = self._resources.enter_context(GatewayProcess(root, *options))
        self._session = dict(session or {})
        self._local = threading.local()
        self._lock = threading.Lock()

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with self.connection().cursor() as cursor:
            cursor.execute(sql, _encode_row(tuple(map(_encode_scalar, parameters))))
            return int(cursor.rowcount)

    def write_many(self, sql: str, rows: pa.Table) -> int:
        with self.connection().cursor() as cursor:
            cursor.executemany(sql, rows)
            return int(cursor.rowcount)

    def ingest(self, table: str, rows: pa.Table, mode: str = "append") -> int:
        """Send rows in bulk."""
        with self.connection().cursor() as cursor:
            return int(cursor.adbc_ingest(table, rows, mode=mode))

    def read(self, sql: str, consistency: Consistency = "strong", parameters: Sequence[Any] = ()) -> pa.Table:
        return self.run(sql, tuple(map(_encode_scalar, parameters)), consistency=consistency)

    def run(
        self,
        sql: str,
        parameters: tuple[pa.Scalar, ...] = (),
        *,
        consistency: Consistency = "strong",
        pruning: bool = True,
        shortcuts: str = "all",
    ) -> pa.Table:
        """Run a query, for the histories."""
        connection = self.connection()
        settings = {
            "adbc.flight.sql.session.option.consistency": consistency,
            "adbc.flight.sql.session.optionbool.region_pruning": "true" if pruning else "false",
            "adbc.flight.sql.session.option.shortcuts": shortcuts,
        }
        if settings != self._local.settings:
            connection.adbc_connection.set_options(**settings)
            self._local.settings = settings
        with connection.cursor() as cursor:
            cursor.execute(sql, _encode_row(parameters))
            return cursor.fetch_arrow_table()

    def connection(self) -> Any:
        """Return the calling thread's connection."""
        if not hasattr(self._local, "connection"):
            connection = open_connection(self.process.uri)
            with self._lock:
                self._local.connection = self._resources.enter_context(connection)
            self._local.settings = {}
            if self._session:
                named = {f"adbc.flight.sql.session.{name}": one for name, one in self._session.items()}
                self._local.connection.adbc_connection.set_options(**named)
        return self._local.connection

    def close(self) -> None:
        self._resources.close()


def start_served_gateway(root: Path) -> ServedGateway:
    """Return a gateway that claims regions at once (`EAGER`)."""
    config = root / "gateway.toml"
    config.write_text("[writes]\nhold = 0\n")
    return ServedGateway(root, "--config", str(config))


def _encode_row(parameters: tuple[pa.Scalar, ...]) -> pa.RecordBatch | None:
    if not parameters:
        return None
    names = [str(number) for number in range(1, len(parameters) + 1)]
    return pa.record_batch([pa.array([value]) for value in parameters], names=names)


def _encode_scalar(value: Any) -> pa.Scalar:
    return value if isinstance(value, pa.Scalar) else pa.scalar(value)
