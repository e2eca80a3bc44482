"""SQL over the catalog's tables, each read in its newest state."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from datafusion import DataFrame, SessionConfig, SessionContext

from execnodes import KeySet, MetricsSet
from memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError
from planner import compatibility
from planner.base_table import BaseTable, FilesVanishedError
from planner.binding import BoundStatement, StatementKind, bind
from planner.catalog import CATALOG, SCHEMA, Catalog
from planner.direct import direct_batches, direct_shape
from planner.explain import explained
from planner.leaf import TableLeaf
from planner.parameters import parameter_types
from planner.query import QueryRun, ReadOptions
from planner.results import normalised, streamed, translated
from planner.snapshot import CONSISTENCY_LEVELS, Consistency
from planner.tokens import quote
from planner.visibility import Visibility

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a session may choose.

    Attributes:
        catalog: the one catalog there is.
        schema: the one schema there is.
        consistency: "strong" (newest manifests and WAL), "flushed" (newest manifests) or "snapshot" (what the
            MemWAL index remembers).
        max_staleness_ms: a table's last snapshot may be used again while it is this young.
        region_pruning: whether predicates may exclude regions.
    """

    catalog: str = CATALOG
    schema: str = SCHEMA
    consistency: Consistency = "strong"
    max_staleness_ms: int = 0
    region_pruning: bool = True

    def __post_init__(self) -> None:
        for name, value, known in (("catalog", self.catalog, CATALOG), ("schema", self.schema, SCHEMA)):
            if value != known:
                msg = f"{name} {value!r} does not exist: there is {known!r}"
                raise InvalidInputError(msg)
        if self.consistency not in CONSISTENCY_LEVELS:
            msg = f"consistency {self.consistency!r} is unknown: choose {', '.join(CONSISTENCY_LEVELS)}"
            raise InvalidInputError(msg)
        if self.max_staleness_ms < 0:
            msg = f"max_staleness_ms is {self.max_staleness_ms}: give 0 (always fresh) or more milliseconds"
            raise InvalidInputError(msg)


RUN_ATTEMPTS = 4
_UNPUSHABLE = "BooleanScalar"
"""DataFusion's bindings can't combine a conjunct that folds to a constant with one that doesn't."""

DEFAULT_SETTINGS = SessionSettings()


class QueryEngine:
    """Prepares and runs statements; safe to share between threads.

    Args:
        catalog: tables and views.
        partitions: of every scan, by default one per core.
    """

    def __init__(self, catalog: Catalog, *, partitions: int | None = None) -> None:
        compatibility.check()
        self.catalog = catalog
        self.partitions = partitions or os.cpu_count() or 1
        self.visibility = Visibility(catalog.cache, catalog.executor)

    def prepare(self, sql: str, settings: SessionSettings = DEFAULT_SETTINGS) -> PreparedQuery:
        """Check syntax, names and types of a statement.

        Raises:
            InvalidInputError: what is wrong, and where.
            NotFoundError: a table or view that doesn't exist.
            UnsupportedError: a statement that is not a query.
        """
        bound = bind(sql, self.catalog, catalog=settings.catalog, schema=settings.schema)
        run = self._run(settings, None)
        frame = self._frame(bound, run, None)
        if not bound.parameter_count:
            prepared = PreparedQuery(self, bound, normalised(frame.schema()), pa.schema([]), settings)
            if bound.kind is not StatementKind.EXPLAIN_ANALYZE:
                prepared._planned = (frame, run)  # noqa: SLF001 (its own other half)
            return prepared
        types = parameter_types(frame.logical_plan(), bound.parameter_count, frame.optimized_logical_plan)
        # Only with typed values is the type known of what is made of parameters alone.
        typed = self._frame(bound, run, [pa.scalar(None, kind) for kind in types])
        parameters = pa.schema([pa.field(f"${index}", kind) for index, kind in enumerate(types, start=1)])
        return PreparedQuery(self, bound, normalised(typed.schema()), parameters, settings)

    def execute(
        self,
        sql: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        parameters: Sequence[pa.Scalar] = (),
    ) -> pa.RecordBatchReader:
        """Prepare and run a statement; see `PreparedQuery.execute`."""
        return self.prepare(sql, settings).execute(parameters)

    def close(self) -> None:
        """Stop background threads."""
        self.catalog.close()

    def _run(self, settings: SessionSettings, metrics: MetricsSet | None) -> QueryRun:
        options = ReadOptions(settings.consistency, settings.max_staleness_ms, settings.region_pruning)
        return QueryRun(options, self.visibility, metrics)

    def _frame(
        self,
        bound: BoundStatement,
        run: QueryRun,
        parameters: Sequence[pa.Scalar] | None,
        *,
        pushdown: bool = True,
    ) -> DataFrame:
        """The statement as DataFusion plans it.

        Args:
            bound: the statement.
            run: its execution.
            parameters: their values; None leaves placeholders in place.
            pushdown: whether leaves are handed their conjuncts.

        Raises:
            LanceGatewayError: DataFusion refuses it.
        """
        text, values = (bound.render(), None) if parameters is None else bound.with_values(parameters)
        context = self._context(typing=parameters is None and bound.parameter_count > 0)
        if not pushdown:
            context.remove_optimizer_rule("push_down_filter")
        tables = list(dict.fromkeys(reference.table for reference in bound.references))
        for reference in bound.references:
            # EXPLAIN prints no table name at a leaf; the number of fragments tells tables apart there.
            marker = 0 if bound.kind is StatementKind.QUERY else tables.index(reference.table)
            leaf = TableLeaf(run, self.catalog.table(reference.table), self.partitions + marker)
            context.register_dataset(reference.private_name, leaf)
        if bound.kind is StatementKind.SHOW or "information_schema" in text.lower():
            self._describe_everything(context, run)
        try:
            return context.sql(text, param_values=values or None)
        except Exception as error:
            raise translated(error, bound, run.failure) from error

    def _describe_everything(self, context: SessionContext, run: QueryRun) -> None:
        """Let DataFusion's information_schema list all tables and views that can be read."""
        for name in self.catalog.table_names():
            try:
                context.register_dataset(quote(name), TableLeaf(run, self.catalog.table(name), 1))
            except LanceGatewayError as error:
                logger.warning("table %r is not listed: %s", name, error)
        for name in self.catalog.view_names():
            try:
                schema = self.prepare(f"SELECT * FROM {quote(name)}").schema  # noqa: S608 (a quoted name)
            except LanceGatewayError as error:
                logger.warning("view %r is not listed: %s", name, error)
                continue
            frame = context.from_arrow(schema.empty_table(), name=f"{name}#view")
            context.register_view(quote(name), frame)
            context.deregister_table(f"{name}#view")

    def _context(self, *, typing: bool) -> SessionContext:
        """A context of the statement's own.

        Args:
            typing: whether the plan is to tell the types of parameters, those in subqueries too.
        """
        config = (
            SessionConfig()
            .with_target_partitions(self.partitions)
            .with_information_schema(enabled=True)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
        )
        if typing:
            # Plans subqueries as joins, where parameters show.
            config = config.set("datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery", "false")
        return SessionContext(config)


class PreparedQuery:
    """A checked statement that can run any number of times.

    Attributes:
        sql: as given.
        schema: of the result, without view types and dictionaries; exactly what `execute` streams.
        parameter_schema: one nullable field per parameter, "$1", "$2", ...
    """

    def __init__(
        self,
        engine: QueryEngine,
        bound: BoundStatement,
        schema: pa.Schema,
        parameter_schema: pa.Schema,
        settings: SessionSettings,
    ) -> None:
        self.sql = bound.sql
        self.schema = schema
        self.parameter_schema = parameter_schema
        self._engine = engine
        self._bound = bound
        self._settings = settings
        self._checked: BaseTable | None = None
        """The base version that is known to give the advertised columns."""
        self._planned: tuple[DataFrame, QueryRun] | None = None
        """What preparing has planned already; the first run with the same settings uses it up."""

    def execute(
        self, parameters: Sequence[pa.Scalar] = (), settings: SessionSettings | None = None
    ) -> pa.RecordBatchReader:
        """Run the statement on what is true now.

        Args:
            parameters: one value per parameter.
            settings: of this run; by default those it was prepared with.

        Returns:
            A lazy stream; dropping it cancels the statement.

        Raises:
            InvalidInputError: too few or too many parameters, or a value of the wrong type.
            PreconditionError: a table changed its columns since the statement was prepared.
        """
        values = self._typed(parameters)
        chosen = settings or self._settings
        if self._bound.kind in (StatementKind.EXPLAIN, StatementKind.EXPLAIN_ANALYZE):
            return self._explain(values, chosen)
        first_run = self._started(chosen, values)
        batches = _again_if_files_vanish(first_run, lambda: self._started(chosen, values))
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def _started(
        self, settings: SessionSettings, parameters: Sequence[pa.Scalar]
    ) -> Iterator[pa.RecordBatch]:
        """Planned, and read lazily."""
        batches = self._lookup(settings, parameters)
        if batches is None:
            batches = self._batches(*self._plan(settings, parameters), settings, parameters)
        return batches

    def _typed(self, parameters: Sequence[pa.Scalar]) -> tuple[pa.Scalar, ...]:
        if len(parameters) != len(self.parameter_schema):
            wanted = len(self.parameter_schema)
            msg = f"the statement has {wanted} parameter(s), but {len(parameters)} were bound"
            raise InvalidInputError(msg)
        return tuple(
            _converted(value, field) for value, field in zip(parameters, self.parameter_schema, strict=True)
        )

    def _lookup(
        self, settings: SessionSettings, parameters: Sequence[pa.Scalar]
    ) -> Iterator[pa.RecordBatch] | None:
        """Answer without DataFusion, where the statement is a point lookup and nothing else."""
        query = self._bound.key_query
        if query is None:
            return None
        table = self._engine.catalog.table(query.table)
        base = table.base()
        keys = query.keys(parameters, base.schema)
        if keys is None:
            return None
        columns = [column for column, _ in query.columns]
        if base is not self._checked:
            if any(name not in base.schema.names for name in columns):
                raise self._altered()
            self._check(pa.schema([base.schema.field(one).with_name(name) for one, name in query.columns]))
            self._checked = base
        if not keys.num_rows:
            return iter(())
        run = self._engine._run(settings, None)  # noqa: SLF001 (the engine's own other half)
        scan = run.add_scan(table, base, columns, keys=KeySet(keys))
        return (streamed(batch, self.schema) for batch in scan.batches(0))

    def _plan(
        self,
        settings: SessionSettings,
        parameters: Sequence[pa.Scalar],
        metrics: MetricsSet | None = None,
        *,
        pushdown: bool = True,
    ) -> tuple[DataFrame, QueryRun]:
        planned, self._planned = self._planned, None
        if planned is not None and pushdown and settings == self._settings:
            return planned
        run = self._engine._run(settings, metrics)  # noqa: SLF001
        frame = self._engine._frame(self._bound, run, parameters, pushdown=pushdown)  # noqa: SLF001
        self._check(frame.schema())
        return frame, run

    def _check(self, schema: pa.Schema) -> None:
        if not normalised(schema).equals(self.schema):
            raise self._altered()

    def _altered(self) -> PreconditionError:
        msg = "the result of this statement has changed since it was prepared, because a table was altered"
        return PreconditionError(f"{msg}: prepare it again: {self.sql}")

    def _batches(
        self,
        frame: DataFrame,
        run: QueryRun,
        settings: SessionSettings,
        parameters: Sequence[pa.Scalar],
    ) -> Iterator[pa.RecordBatch]:
        try:
            try:
                batches = self._opened(frame, run)
            except Exception as error:
                if _UNPUSHABLE not in str(error):
                    raise
                frame, run = self._plan(settings, parameters, pushdown=False)
                batches = self._opened(frame, run)
            for batch in batches:
                yield streamed(batch, self.schema)
        except Exception as error:
            raise translated(error, self._bound, run.failure) from error

    def _opened(self, frame: DataFrame, run: QueryRun) -> Iterator[pa.RecordBatch]:
        """Physically planned, not yet read."""
        shape = None if len(self._bound.references) != 1 else direct_shape(frame)
        if shape is None:
            return iter(pa.RecordBatchReader.from_stream(frame))
        return direct_batches(shape, frame, run)

    def _explain(self, parameters: Sequence[pa.Scalar], settings: SessionSettings) -> pa.RecordBatchReader:
        analyzed = self._bound.kind is StatementKind.EXPLAIN_ANALYZE
        frame, run = self._plan(settings, parameters, MetricsSet() if analyzed else None)
        try:
            batches = [streamed(batch, self.schema) for batch in self._opened(frame, run)]
        except Exception as error:
            raise translated(error, self._bound, run.failure) from error
        table = explained(pa.Table.from_batches(batches, self.schema), run, self._engine.partitions)
        return pa.RecordBatchReader.from_batches(self.schema, table.to_batches())


def _again_if_files_vanish(
    batches: Iterator[pa.RecordBatch], restart: Callable[[], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """The same batches; begun anew, on a new snapshot, when files vanish before there is a first batch.

    What vanished was merged or compacted, so the new snapshot has its rows elsewhere.
    """
    for attempt in range(RUN_ATTEMPTS):
        try:
            first = next(batches, None)
        except FilesVanishedError:
            if attempt == RUN_ATTEMPTS - 1:
                raise
            batches = restart()
            continue
        if first is not None:
            yield first
            yield from batches
        return


def _converted(value: pa.Scalar, field: pa.Field) -> pa.Scalar:
    if value.type.equals(field.type):
        return value
    if not value.is_valid:
        return pa.scalar(None, field.type)
    try:
        return value.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        # DataFusion may know a way (a decimal compared with an int column); keep what was bound.
        if _numeric(value.type) and _numeric(field.type):
            return value
        msg = (
            f"parameter {field.name} is {value.as_py()!r} ({value.type}), but {field.type} is needed: {error}"
        )
        raise InvalidInputError(msg) from error


def _numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
