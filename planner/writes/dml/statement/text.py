"""The text of a statement that writes, and the queries that it reads with, spliced from that text.

Tokens of the client's text are copied into the queries, never regenerated. So all of DataFusion's syntax
works, and positions in errors can be mapped back to the client's text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from memwal.errors import InvalidInputError, LanceGatewayError, copy_error
from planner.access.rights import Access
from planner.bridge.run_control import RunControl
from planner.bridge.types.plain_types import WrongParameterError
from planner.plans.prepared_query import PreparedQuery
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.limits import SIZE_WORDS, check_literal_sizes
from planner.sql.statement_reader import Part, StatementReader
from planner.sql.tokens import STRING, PlacedMessage, SqlText, find_place, number_parameters, quote, tokenize

_AT_ONCE = 256
"""Expressions in one SELECT: DataFusion's planning grows faster than their number."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WriteText:
    """A statement's tokens and parameters.

    Attributes:
        text: tokens.
        slots: first token of each parameter -> its ordinal, from 0.
        parameter_count: number of parameters.
    """

    text: SqlText
    slots: Mapping[int, int]
    parameter_count: int

    @property
    def sql(self) -> str:
        """Text of the statement, without a trailing semicolon."""
        return self.text.sql

    def reader(self, at: int = 0) -> StatementReader:
        """Return a reader that starts at a token."""
        return StatementReader(self.text, at)

    def parameter(self, part: Part) -> int | None:
        """Return the ordinal of the parameter that a part consists of; None if it is something else."""
        ordinal = self.slots.get(part.start)
        if ordinal is None or len(part) != 1 + (self.text.words[part.start] == "$"):
            return None
        return ordinal

    def source(self, part: Part) -> str:
        """Return the text of a part."""
        return self.sql[self.text.start(part.start) : self.text.end(part.stop - 1)] if part else ""


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
    return WriteText(text, slots, count)


@dataclass(frozen=True, slots=True)
class _CopiedText:
    """Characters `start` to `end` of the query are copied from position `origin` of the statement."""

    start: int
    end: int
    origin: int


_AFTER_OTHERS = frozenset({".", "(", STRING})
"""Words behind names of relations, functions and types."""
_NO_COLUMNS = frozenset(
    {"CASE", "WHEN", "THEN", "ELSE", "END", "AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "IN", "LIKE"}
    | {"BETWEEN", "AS", "FROM", "DISTINCT"}
)
"""Words that are columns only in quotes."""


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
        self._texts: list[str] = []
        self._length = 0
        self._copied: list[_CopiedText] = []
        self._ordinals: list[int] = []

    def add(self, text: str) -> Splice:
        """Append SQL text."""
        self._texts.append(text)
        self._length += len(text)
        return self

    def copy(self, part: Part) -> Splice:
        """Append a part of the statement."""
        text, slots = self._statement.text, self._statement.slots
        if not part:
            return self
        tokens = text.tokens
        position = tokens[part.start].start
        for at in part:
            ordinal = slots.get(at)
            if ordinal is not None:
                self._copy_characters(position, tokens[at].start)
                position = tokens[at + (text.words[at] == "$")].end + 1
                self.parameter(ordinal)
        self._copy_characters(position, tokens[part.stop - 1].end + 1)
        return self

    def copy_of_relation(self, part: Part, columns: Collection[str], relation: str) -> Splice:
        """Append a part whose columns without a relation belong to one; not those of its subqueries.

        Args:
            part: of the statement.
            columns: that would otherwise be ambiguous.
            relation: their relation.
        """
        text, first = self._statement.text, part.start
        for at in part if not any(text.words[at] == "SELECT" for at in part) else ():
            is_bare = (
                text.is_name(at) and text.words[at - 1] != "." and text.words[at + 1] not in _AFTER_OTHERS
            )
            if is_bare and text.name(at) in columns:
                self.copy(range(first, at)).add(f" {quote(relation)}.")
                first = at
        return self.copy(range(first, part.stop))

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
            return SourceQuery(
                query, self.engine.prepare(query.sql, self.settings, self.access), self.settings
            )


@dataclass(frozen=True, eq=False)
class SourceQuery:
    """A prepared query that a statement reads with.

    Attributes:
        query: the query, spliced from the statement.
        prepared: the prepared query.
        settings: settings under which it was prepared, and runs.
    """

    query: SplicedQuery
    prepared: PreparedQuery
    settings: SessionSettings

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
            return self.prepared.execute(self.query.values(parameters), self.settings, control)


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
    session: ReadSession, statement: WriteText, parts: Sequence[Part], common_tables: Part
) -> ComputedValues:
    """Prepare expressions that refer to no row.

    Args:
        session: session that evaluates them.
        statement: statement that they are parts of.
        parts: the expressions.
        common_tables: WITH, which they may use.

    Raises:
        LanceGatewayError: an expression is invalid.
    """
    reads = []
    for first in range(0, len(parts), _AT_ONCE):
        splice = Splice(statement).copy(common_tables).add(" SELECT ")
        for number, part in enumerate(parts[first : first + _AT_ONCE]):
            splice.add(", (" if number else "(").copy(part).add(f") AS {quote(f'value {number}')}")
        reads.append(session.prepare(splice.build()))
    return ComputedValues(tuple(reads))
