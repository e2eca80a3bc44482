"""The text of a statement that writes, and the queries that it reads with, spliced from that text.

Tokens of the client's text are copied into the queries, never regenerated. So all of DataFusion's syntax
works, and positions in errors can be mapped back to the client's text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, copy_error
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.bridge.types.plain_types import WrongParameterError, is_assigned_alike
from lance_gateway.planner.plans.prepared_query import PreparedQuery
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.sql.text.limits import SIZE_WORDS, check_literal_sizes
from lance_gateway.planner.sql.text.tokens import (
    PlacedMessage,
    SqlText,
    find_place,
    number_parameters,
    quote,
    tokenize,
)
from lance_gateway.planner.writes.dml.statement.tree import S, fold_name, locate, parse_tree

_AT_ONCE = 256
"""Expressions in one SELECT: DataFusion's planning grows faster than their number."""
_TABLE_CLAUSES = frozenset({"this", "db", "catalog", "alias", "version"})
_START = attrgetter("start")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WriteText:
    """A statement's tokens and parameters.

    Attributes:
        text: tokens.
        parameters: characters of each parameter -> its ordinal, from 0, in the order of the text.
        parameter_count: number of parameters.
    """

    text: SqlText
    parameters: Mapping[range, int]
    parameter_count: int

    @property
    def sql(self) -> str:
        """Text of the statement, without a trailing semicolon."""
        return self.text.sql

    def parameter(self, value: exp.Expr) -> int | None:
        """Return the ordinal of the parameter that a value consists of; None if it is something else."""
        is_parameter = isinstance(value, exp.Placeholder | exp.Parameter)
        return self.parameters.get(locate(value)) if is_parameter else None


@dataclass(frozen=True, slots=True)
class Statement(WriteText, Generic[S]):
    """An INSERT, UPDATE, DELETE or MERGE.

    Attributes:
        tree: the statement.
        table: parts of the name of the table that it writes.
        name: name or alias of the table in the statement.
    """

    tree: S
    table: tuple[str, ...]
    name: str

    @property
    def common_tables(self) -> exp.Expr | None:
        """WITH before the statement."""
        return self.tree.args.get("with_")

    @property
    def returning(self) -> exp.Expr | None:
        """RETURNING."""
        return self.tree.args.get("returning")

    def error(
        self, part: exp.Expr, what: str, kind: type[LanceGatewayError] = InvalidInputError
    ) -> LanceGatewayError:
        """Return an error at the first character of a part."""
        return kind(PlacedMessage(self.sql, locate(part).start, what))


def parse_write(sql: str, kind: type[S]) -> Statement[S]:
    """Parse a statement.

    Args:
        sql: the statement.
        kind: of statement that its first word promises.

    Raises:
        InvalidInputError: the text has a syntax error; with its place.
        UnsupportedError: the statement has a clause that is not supported.
    """
    read = read_statement(sql)
    tree = parse_tree(read.text, kind)
    table = tree.this
    alias = table.args.get("alias")
    is_name = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier | exp.Dot)
    parts = tuple(map(fold_name, table.parts)) if is_name else ()
    name = fold_name(alias.this) if alias is not None else "".join(parts[-1:])
    statement = Statement(read.text, read.parameters, read.parameter_count, tree, parts, name)
    clauses = {name for name, value in table.args.items() if value} - _TABLE_CLAUSES
    if not parts or clauses or (alias is not None and alias.columns):
        raise statement.error(table, "Only the name and an alias of a table are expected")
    if table.args.get("version"):
        message = (
            "Only the newest state of a table is written: RESTORE TABLE goes back to a former one, and a "
            "branch is written by Lance, lance.dataset(..).checkout_version((branch, None))"
        )
        raise statement.error(table, message)
    return statement


def read_statement(sql: str) -> WriteText:
    """Split a statement into tokens.

    Raises:
        LanceGatewayError: the text can't be tokenized; names the position.
    """
    text = tokenize(sql)
    if text.has_any(SIZE_WORDS):
        check_literal_sizes(text)
    nul = sql.find("\0")
    if nul >= 0:
        raise InvalidInputError(PlacedMessage(sql.replace("\0", "\ufffd"), nul, "A NUL character"))
    slots, count = number_parameters(text)
    ends = {at: text.end(at + (text.words[at] == "$")) for at in slots}
    return WriteText(text, {range(text.start(at), ends[at]): slot for at, slot in slots.items()}, count)


@dataclass(frozen=True, slots=True)
class _CopiedText:
    """Characters `start` to `end` of the query are copied from position `origin` of the statement."""

    start: int
    end: int
    origin: int


@dataclass(frozen=True, slots=True)
class SplicedQuery:
    """A query made of parts of a statement.

    Attributes:
        sql: text of the query, with parameters renumbered.
        ordinals: ordinals in the statement of the query's parameters.
        original: text of the statement.
        copied: ranges of the query that are copied from the statement.
    """

    sql: str
    ordinals: tuple[int, ...]
    original: str
    copied: tuple[_CopiedText, ...] = ()

    def values(self, parameters: Sequence[T]) -> list[T]:
        """Select the query's parameters from those of the statement."""
        return [parameters[ordinal] for ordinal in self.ordinals]

    @contextmanager
    def relocate_errors(self) -> Iterator[None]:
        """Map positions in errors from the query to the statement."""
        try:
            yield
        except WrongParameterError as error:
            raise error.renumber(self.ordinals[error.number - 1] + 1) from error
        except LanceGatewayError as error:
            message = self._relocate_message(error)
            if message is None:
                raise
            raise copy_error(error, message) from error

    def _relocate_message(self, error: LanceGatewayError) -> str | PlacedMessage | None:
        """Return the message of an error about the statement; None if it is about that already."""
        place = find_place(error)
        if place is None:
            text = str(error)
            return text.replace(self.sql, self.original) if self.sql in text else None
        if place.sql == self.original:
            return None
        return replace(place, sql=self.original, position=self._find_origin(place.position))

    def _find_origin(self, place: int) -> int:
        """Return the position in the statement of the nearest copied character at or before a position."""
        nearest = 0
        for copy in self.copied:
            if copy.start <= place:
                nearest = copy.origin + min(place, copy.end) - copy.start
        return nearest


class Splice:
    """Builds a query from parts of a statement and other text.

    Args:
        statement: statement whose parts are copied.
    """

    def __init__(self, statement: WriteText) -> None:
        self._statement = statement
        self._parameters = tuple(statement.parameters)
        self._texts: list[str] = []
        self._length = 0
        self._copied: list[_CopiedText] = []
        self._ordinals: list[int] = []

    def add(self, text: str) -> Splice:
        """Append SQL text."""
        self._texts.append(text)
        self._length += len(text)
        return self

    def copy(self, *parts: exp.Expr | None) -> Splice:
        """Append the text of the statement from the first of some parts to the last."""
        return self.copy_place(locate(*parts))

    def copy_place(self, place: range) -> Splice:
        """Append characters of the statement."""
        position, parameters = place.start, self._parameters
        for at in range(bisect_left(parameters, place.start, key=_START), len(parameters)):
            if parameters[at].start >= place.stop:
                break
            self._copy_characters(position, parameters[at].start)
            self.parameter(self._statement.parameters[parameters[at]])
            position = parameters[at].stop
        self._copy_characters(position, place.stop)
        return self

    def copy_of_relation(self, part: exp.Expr, columns: Collection[str], relation: str) -> Splice:
        """Append a part whose columns without a relation belong to one; not those of its subqueries.

        Args:
            part: of the statement.
            columns: that would otherwise be ambiguous.
            relation: their relation.
        """
        place = locate(part)
        first, found = place.start, () if part.find(exp.Query) else part.find_all(exp.Column)
        bare = [one.this for one in found if not one.table and fold_name(one.this) in columns]
        for start in sorted(locate(name).start for name in bare):
            self.copy_place(range(first, start)).add(f" {quote(relation)}.")
            first = start
        return self.copy_place(range(first, place.stop))

    def parameter(self, ordinal: int) -> Splice:
        """Append a parameter of the statement."""
        if ordinal not in self._ordinals:
            self._ordinals.append(ordinal)
        return self.add(f"${self._ordinals.index(ordinal) + 1}")

    def build(self) -> SplicedQuery:
        """Return the query."""
        return SplicedQuery(
            "".join(self._texts), tuple(self._ordinals), self._statement.sql, tuple(self._copied)
        )

    def _copy_characters(self, start: int, end: int) -> None:
        if end > start:
            self._copied.append(_CopiedText(self._length, self._length + end - start, start))
            self.add(self._statement.sql[start:end])


@dataclass(frozen=True, eq=False)
class ReadSession:
    """The engine, settings and rights that a statement reads with.

    Attributes:
        engine: prepares the queries.
        settings: session settings.
        access: rights of the principal.
    """

    engine: QueryPlanner
    settings: SessionSettings
    access: Access

    def with_strong_consistency(self) -> ReadSession:
        """Return a session that reads the newest rows, which a statement that changes them needs."""
        settings = self.settings
        is_plain = settings.type_set == "arrow" and settings.endpoints == 1
        if is_plain and settings.consistency == "strong" and not settings.max_staleness_ms:
            return self
        settings = replace(settings, consistency="strong", max_staleness_ms=0, endpoints=1, types="arrow")
        return ReadSession(self.engine, settings, self.access)

    def prepare(self, query: SplicedQuery) -> SourceQuery:
        """Prepare a query.

        Raises:
            LanceGatewayError: the query is invalid; positions are those in the statement.
        """
        with query.relocate_errors():
            return SourceQuery(query, self.engine.prepare(query.sql, self.settings, self.access), self)


@dataclass(frozen=True, eq=False)
class SourceQuery:
    """A prepared query that a statement reads with.

    Attributes:
        query: the query, spliced from the statement.
        prepared: the prepared query.
        session: session in which it was prepared, and runs.
    """

    query: SplicedQuery
    prepared: PreparedQuery
    session: ReadSession

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return self.prepared.schema

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal in the statement -> type that the query expects."""
        return dict(zip(self.query.ordinals, self.prepared.parameter_schema.types, strict=True))

    def execute(self, parameters: Sequence[pa.Scalar], control: RunControl) -> pa.RecordBatchReader:
        """Run the query lazily with the statement's parameters.

        Raises:
            LanceGatewayError: the query failed; positions are those in the statement.
        """
        with self.query.relocate_errors():
            values = self.query.values(parameters)
            return self._prepare_for(values).execute(values, self.session.settings, control)

    def find_matching_regions(
        self, table: str, parameters: Sequence[pa.Scalar], control: RunControl
    ) -> Collection[str]:
        """Return the regions of a table that may have rows of the query; see `PreparedQuery`."""
        with self.query.relocate_errors():
            values = self.query.values(parameters)
            prepared = self._prepare_for(values)
            return prepared.find_matching_regions(table, values, self.session.settings, control)

    def _prepare_for(self, values: Sequence[pa.Scalar]) -> PreparedQuery:
        """Prepare the query for the types of values, which may decide on what it means."""
        if not values:
            return self.prepared
        session, kinds = self.session, [value.type for value in values]
        typed = session.engine.prepare(self.query.sql, session.settings, session.access, bound=kinds)
        # What becomes of the result was decided on by its types; numbers are assigned as they come.
        return typed if is_assigned_alike(typed.schema, self.prepared.schema) else self.prepared


@dataclass(frozen=True, eq=False)
class ComputedValues:
    """Expressions that are evaluated once for each execution, each to a single value."""

    source_queries: tuple[SourceQuery, ...] = ()

    def types(self) -> list[pa.DataType]:
        """Return the types of the expressions, in order."""
        return [kind for read in self.source_queries for kind in read.schema.types]

    def values(self, parameters: Sequence[pa.Scalar], control: RunControl) -> list[pa.Array]:
        """Evaluate the expressions; returns an array of one value for each."""
        rows = [read.execute(parameters, control).read_all() for read in self.source_queries]
        return [column.combine_chunks() for table in rows for column in table.columns]


def prepare_computed_values(
    session: ReadSession, statement: Statement[Any], parts: Sequence[exp.Expr]
) -> ComputedValues:
    """Prepare expressions that refer to no row.

    Args:
        session: session that evaluates them.
        statement: statement that they are parts of.
        parts: the expressions.

    Raises:
        LanceGatewayError: an expression is invalid.
    """
    reads = []
    for first in range(0, len(parts), _AT_ONCE):
        splice = Splice(statement).copy(statement.common_tables).add(" SELECT ")
        for number, part in enumerate(parts[first : first + _AT_ONCE]):
            splice.add(", (" if number else "(").copy(part).add(f") AS {quote(f'value {number}')}")
        reads.append(session.prepare(splice.build()))
    return ComputedValues(tuple(reads))
