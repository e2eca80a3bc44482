"""Who answers: the gateway in its several ways, plain DataFusion and DuckDB over the same rows."""

import contextlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import DataFrame, SessionConfig, SessionContext

from lance_gateway.planner.access.rights import FULL_ACCESS, Access
from lance_gateway.planner.bridge.row_expressions import register_row_functions
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, PreparedWrite, QueryEngine, SessionSettings
from lance_gateway.planner.writes.transactions.transaction import Transaction
from tests.fuzz.sql.grammar.blocks import is_beyond_datafusion
from tests.fuzz.sql.grammar.kinds import kind_of
from tests.fuzz.sql.grammar.laws.changes import Changed
from tests.fuzz.sql.grammar.tree import AbstainError, Node, Reader, quoted, render

PLAIN = SessionSettings()
_WRONG_RULES = ("eliminate_duplicated_expr", "eliminate_group_by_constant")
"""Rules of DataFusion 55 that give wrong answers; the gateway does not apply them either."""


class Refused(Exception):  # noqa: N818 - an answer as well
    """An engine does not answer; the text is its own."""


MOST_ROWS = 100_000
"""More are not compared: joins of joins have as many as anybody likes."""


def held(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The rows of an answer.

    Raises:
        Refused: there are too many.
    """
    kept: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        count += batch.num_rows
        if count > MOST_ROWS:
            msg = "too many rows to compare"
            raise Refused(msg)
        kept.append(batch)
    return pa.Table.from_batches(kept, schema)


class Engine(Protocol):
    """Answers statements."""

    name: str

    def answer(self, node: Node) -> pa.Table:
        """The rows.

        Raises:
            Refused: it has none.
            AbstainError: the statement means something else there.
        """


@dataclass
class GatewayEngine:
    """A query engine of the gateway, with settings and rights, perhaps in a transaction."""

    engine: QueryEngine
    settings: SessionSettings = PLAIN
    access: Access = FULL_ACCESS
    name: str = "gateway"
    reader: Reader = Reader.GATEWAY
    transaction: Transaction | None = None

    def answer(self, node: Node) -> pa.Table:
        if isinstance(node, Changed):
            return self._answer_changed(node)
        text, parameters = render(node, self.reader)
        return self.answer_text(text, parameters)

    def _answer_changed(self, node: Changed) -> pa.Table:
        """In a transaction that does not commit."""
        transaction = Transaction(self.engine, 1 << 30)
        control = RunControl()
        control.transaction = transaction
        text, _ = render(node.change, self.reader)
        try:
            prepared = self.engine.prepare_statement(text, self.settings, self.access)
            assert isinstance(prepared, PreparedWrite)
            with transaction.statement():
                result = prepared.execute((), control)
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        if node.then is None:
            return pa.table({"n": [result.affected]}) if result.rows is None else result.rows
        return replace(self, transaction=transaction).answer(node.then)

    def answer_text(
        self, text: str, parameters: Sequence[pa.Scalar] = (), types: Sequence[pa.DataType] = ()
    ) -> pa.Table:
        """The rows of a statement that is text already; `types` are those of its bare parameters."""
        control = RunControl()
        control.transaction = self.transaction
        try:
            prepared = self.engine.prepare_statement(text, self.settings, self.access, bound=types)
            assert isinstance(prepared, PreparedQuery)
            reader = prepared.execute(parameters, control=control)
            return held(reader.schema, reader)
        except Refused:
            raise
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error

    def with_settings(self, name: str, settings: SessionSettings) -> "GatewayEngine":
        """The same engine under other settings."""
        return replace(self, name=name, settings=settings)


class DataFusionEngine:
    """DataFusion over rows in memory."""

    name = "datafusion"

    def __init__(self) -> None:
        config = (
            SessionConfig()
            .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
            .set("datafusion.execution.skip_physical_aggregate_schema_check", "true")
            .set("datafusion.optimizer.join_reordering", "false")
            .set("datafusion.optimizer.max_passes", "16")
            # DataFusion merges a sorted UNION by keys that it has not sorted by; the gateway sorts it whole.
            .set("datafusion.optimizer.repartition_sorts", "false")
        )
        self._context = SessionContext(config.with_target_partitions(1))
        for rule in _WRONG_RULES:
            self._context.remove_optimizer_rule(rule)
        # For what policies say of rows; statements that call them are asked of DuckDB.
        register_row_functions(self._context)

    def set_table(self, name: str, table: pa.Table) -> None:
        """Hold these rows under a name."""
        self._context.deregister_table(quoted(name))
        batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        self._context.register_record_batches(quoted(name), [batches])

    def set_view(self, name: str, text: str) -> None:
        """Offer a query under a name."""
        self.answer_text(f"CREATE OR REPLACE VIEW {quoted(name)} AS {text}")

    def answer(self, node: Node) -> pa.Table:
        text, _ = render(node, Reader.DATAFUSION)
        if is_beyond_datafusion(node):
            raise AbstainError(text)
        return self.answer_text(text)

    def answer_text(self, text: str) -> pa.Table:
        """The rows of a statement that is text already."""
        try:
            frame = self._context.sql(text)
            batches = (batch.to_pyarrow() for batch in frame.execute_stream())
            first = list(islice(batches, 1))
            schema = first[0].schema if first else self._schema(frame)
            # Batches of one answer may differ in what may be NULL.
            schema = pa.schema([pa.field(one.name, one.type) for one in schema])
            return held(
                schema, (pa.record_batch(one.columns, schema=schema) for one in chain(first, batches))
            )
        except Refused:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise Refused(f"{type(error).__name__}: {error}") from error

    @staticmethod
    def _schema(frame: DataFrame) -> pa.Schema:
        """The types that rows would have: a plan as it is written has those before coercion."""
        optimized = frame.optimized_logical_plan()
        return SessionContext().create_dataframe_from_logical_plan(optimized).schema()


class DuckEngine:
    """DuckDB over the same rows; columns of types that it does not have are not there."""

    name = "duckdb"

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._connection.execute(
            "SET threads = 1; SET memory_limit = '2GB';"
            " SET default_null_order = 'nulls_last_on_asc_first_on_desc'"
        )

    def set_table(self, name: str, table: pa.Table) -> None:
        """Hold these rows under a name."""
        held = {}
        for field in table.schema:
            duck = kind_of(field.type).duck
            if duck is not None:
                column = table.column(field.name)
                held[field.name] = _without_zone(column) if field.type != duck else column
        self._connection.register("incoming", pa.table(held))
        self._connection.execute(f"CREATE OR REPLACE TABLE {quoted(name)} AS SELECT * FROM incoming")
        self._connection.unregister("incoming")

    def set_view(self, name: str, text: str) -> None:
        """Offer a query under a name."""
        self._connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {text}")

    def answer_unoptimized(self, node: Node) -> pa.Table:
        """The rows by the plan as it is written, since the optimiser makes mistakes of its own.

        Of DuckDB 2.0: `JOIN .. WHERE nullif('a', s) LIKE 'a%'` loses the rows whose `s` is NULL.
        """
        self._connection.execute("PRAGMA disable_optimizer")
        try:
            return self.answer(node)
        finally:
            self._connection.execute("PRAGMA enable_optimizer")

    def answer(self, node: Node) -> pa.Table:
        text, _ = render(node, Reader.DUCKDB)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reader = self._connection.execute(text).to_arrow_reader(10_000)
                return held(reader.schema, reader)
        except duckdb.Error as error:
            raise Refused(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Free the rows."""
        self._connection.close()


def _without_zone(column: pa.ChunkedArray) -> pa.ChunkedArray:
    target = kind_of(column.type).duck
    if pa.types.is_timestamp(column.type):
        return pc.cast(column.cast(pa.int64()), target) if column.type.tz else column.cast(target)
    return column.cast(target)


@dataclass
class References:
    """The engines that hold a copy of the rows.

    Attributes:
        views: Their texts for DataFusion and DuckDB, None where the latter means something else by it.
    """

    datafusion: DataFusionEngine
    duckdb: DuckEngine
    views: Mapping[str, tuple[str, str | None]]

    @staticmethod
    def over(tables: Mapping[str, pa.Table], views: Mapping[str, tuple[str, str | None]]) -> "References":
        """Engines over these tables and views."""
        references = References(DataFusionEngine(), DuckEngine(), views)
        for name, table in tables.items():
            references.datafusion.set_table(name, table)
            references.duckdb.set_table(name, table)
        references._set_views()
        return references

    def set_table(self, name: str, table: pa.Table) -> None:
        """Hold these rows from now on."""
        self.datafusion.set_table(name, table)
        self.duckdb.set_table(name, table)
        self._set_views()

    def _set_views(self) -> None:
        """DataFusion's views are plans, which go on reading the rows of when they were made."""
        for name, (native, duck) in self.views.items():
            self.datafusion.set_view(name, native)
            if duck is not None:
                # DuckDB refuses what it does not know; statements over the view find none there.
                with contextlib.suppress(duckdb.Error):
                    self.duckdb.set_view(name, duck)

    def close(self) -> None:
        """Free the rows."""
        self.duckdb.close()
