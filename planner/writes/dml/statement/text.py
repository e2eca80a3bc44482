"""The text of a statement that writes, and the queries that it reads with, spliced from it.

What the client wrote is copied token by token into that query, never regenerated, so that all of DataFusion's
syntax survives and errors find their way back to the place that they are about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from memwal.errors import InvalidInputError, LanceGatewayError
from planner.access.rights import Access
from planner.bridge.plain_types import WrongParameterError
from planner.bridge.run_control import RunControl
from planner.plans.prepared_query import PreparedQuery
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.limits import check_literal_sizes
from planner.sql.statement_reader import Part, StatementReader
from planner.sql.tokens import SqlText, at_position, number_parameters, quote, tokenize

__all__ = [
    "Computed",
    "Read",
    "ReadSession",
    "Splice",
    "SplicedQuery",
    "WriteText",
    "computed",
    "read_statement",
    "retold",
]

_AT_ONCE = 256
"""Expressions in one SELECT: DataFusion's planning grows faster than their number."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WriteText:
    """A statement's tokens and parameters.

    Attributes:
        text: tokens.
        slots: first token of each parameter -> its ordinal, from 0.
        parameter_count: values that it takes.
    """

    text: SqlText
    slots: Mapping[int, int]
    parameter_count: int

    @property
    def sql(self) -> str:
        """As given, without a trailing semicolon."""
        return self.text.sql

    def reader(self, at: int = 0) -> StatementReader:
        """Reads it from a token on."""
        return StatementReader(self.text, at)

    def parameter(self, part: Part) -> int | None:
        """The parameter's ordinal where a part is one and nothing else."""
        ordinal = self.slots.get(part.start)
        if ordinal is None or len(part) != 1 + (self.text.words[part.start] == "$"):
            return None
        return ordinal

    def source(self, part: Part) -> str:
        """The part as it stands in the text."""
        return self.sql[self.text.start(part.start) : self.text.end(part.stop - 1)] if part else ""


def read_statement(sql: str) -> WriteText:
    """Take a statement apart into tokens.

    Raises:
        LanceGatewayError: what is wrong with it, and where.
    """
    text = tokenize(sql)
    check_literal_sizes(text)
    nul = sql.find("\0")
    if nul >= 0:
        raise InvalidInputError(at_position(sql.replace("\0", "\ufffd"), nul, "A NUL character"))
    slots, count = number_parameters(text)
    return WriteText(text, slots, count)


def retold(error: LanceGatewayError, message: str) -> LanceGatewayError:
    """The same error with another message; what else it carries stays."""
    kind = type(error)
    # Not called like a class: some take more than a message.
    made = kind.__new__(kind, message)
    made.__dict__.update(error.__dict__)
    return made


_PLACE = re.compile(r" at line (\d+), column (\d+):\n.*?\n *\^", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Copied:
    """Characters `start` to `end` of the query are those of the statement from `origin` on."""

    start: int
    end: int
    origin: int


@dataclass(frozen=True, slots=True)
class SplicedQuery:
    """A query made of parts of a statement.

    Attributes:
        sql: its text, with parameters numbered anew.
        ordinals: of its parameters in the statement.
        original: the statement's text.
    """

    sql: str
    ordinals: tuple[int, ...]
    original: str
    copied: tuple[_Copied, ...] = ()

    def values(self, parameters: Sequence[T]) -> list[T]:
        """Those of the statement's parameters that it has, in its order."""
        return [parameters[one] for one in self.ordinals]

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Errors that show a place in the query show it in the statement."""
        try:
            yield
        except WrongParameterError as error:
            raise error.renumber(self.ordinals[error.number - 1] + 1) from error
        except LanceGatewayError as error:
            told = self._show(str(error))
            if told == str(error):
                raise
            raise retold(error, told) from error

    def _show(self, message: str) -> str:
        message = message.replace(self.sql, self.original)
        found = _PLACE.search(message)
        if found is None:
            return message
        lines = self.sql.split("\n")
        line, column = int(found[1]), int(found[2])
        place = sum(len(one) + 1 for one in lines[: line - 1]) + column - 1
        origin = self._origin(place)
        return at_position(self.original, origin, message[: found.start()]) + message[found.end() :]

    def _origin(self, place: int) -> int:
        """The place in the statement, or the nearest copied one before it."""
        nearest = 0
        for one in self.copied:
            if one.start <= place:
                nearest = one.origin + min(place, one.end) - one.start
        return nearest


class Splice:
    """Builds a query.

    Args:
        statement: whose parts are copied.
    """

    def __init__(self, statement: WriteText) -> None:
        self._statement = statement
        self._texts: list[str] = []
        self._length = 0
        self._copied: list[_Copied] = []
        self._ordinals: list[int] = []

    def add(self, text: str) -> Splice:
        """Append text of our own."""
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
                self._verbatim(position, tokens[at].start)
                position = tokens[at + (text.words[at] == "$")].end + 1
                self.parameter(ordinal)
        self._verbatim(position, tokens[part.stop - 1].end + 1)
        return self

    def parameter(self, ordinal: int) -> Splice:
        """Append a parameter of the statement."""
        if ordinal not in self._ordinals:
            self._ordinals.append(ordinal)
        return self.add(f"${self._ordinals.index(ordinal) + 1}")

    def query(self) -> SplicedQuery:
        """What was built."""
        return SplicedQuery(
            "".join(self._texts), tuple(self._ordinals), self._statement.sql, tuple(self._copied)
        )

    def _verbatim(self, start: int, end: int) -> None:
        if end > start:
            self._copied.append(_Copied(self._length, self._length + end - start, start))
            self.add(self._statement.sql[start:end])


@dataclass(frozen=True, eq=False)
class ReadSession:
    """For whom a statement reads, and by what.

    Attributes:
        engine: that the statement came to.
        settings: of the session.
        access: rights of the principal.
    """

    engine: QueryPlanner
    settings: SessionSettings
    access: Access

    def strong(self) -> ReadSession:
        """The same, for reading what is about to be changed: the newest rows."""
        chosen = replace(self.settings, consistency="strong", max_staleness_ms=0, endpoints=1, types="arrow")
        return ReadSession(self.engine, chosen, self.access)

    def prepare(self, query: SplicedQuery) -> Read:
        """Check a query.

        Raises:
            LanceGatewayError: what is wrong with it, shown in the statement.
        """
        with query.telling():
            return Read(query, self.engine.prepare(query.sql, self.settings, self.access), self.settings)


@dataclass(frozen=True, eq=False)
class Read:
    """A query that a statement reads with.

    Attributes:
        query: spliced from the statement.
        prepared: the same, checked.
        settings: under which it was, and runs.
    """

    query: SplicedQuery
    prepared: PreparedQuery
    settings: SessionSettings

    @property
    def schema(self) -> pa.Schema:
        """Of the result."""
        return self.prepared.schema

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal in the statement -> type that the query expects."""
        return dict(zip(self.query.ordinals, self.prepared.parameter_schema.types, strict=True))

    def batches(self, parameters: Sequence[pa.Scalar], control: RunControl) -> pa.RecordBatchReader:
        """Run it with the statement's parameters; lazily.

        Raises:
            LanceGatewayError: what went wrong, shown in the statement.
        """
        with self.query.telling():
            return self.prepared.execute(self.query.values(parameters), self.settings, control)


@dataclass(frozen=True, eq=False)
class Computed:
    """Expressions that are computed once for each execution, each a single value."""

    reads: tuple[Read, ...] = ()

    def types(self) -> list[pa.DataType]:
        """Of the expressions, in order."""
        return [kind for read in self.reads for kind in read.schema.types]

    def values(self, parameters: Sequence[pa.Scalar], control: RunControl) -> list[pa.Array]:
        """One array of one value for each expression."""
        rows = [read.batches(parameters, control).read_all() for read in self.reads]
        return [column.combine_chunks() for one in rows for column in one.columns]


def computed(
    session: ReadSession, statement: WriteText, parts: Sequence[Part], common_tables: Part
) -> Computed:
    """Check expressions that name no row.

    Args:
        session: that computes them.
        statement: they are parts of.
        parts: the expressions.
        common_tables: WITH, which they may use.

    Raises:
        LanceGatewayError: what is wrong with one.
    """
    reads = []
    for first in range(0, len(parts), _AT_ONCE):
        splice = Splice(statement).copy(common_tables).add(" SELECT ")
        for number, part in enumerate(parts[first : first + _AT_ONCE]):
            splice.add(", (" if number else "(").copy(part).add(f") AS {quote(f'value {number}')}")
        reads.append(session.prepare(splice.query()))
    return Computed(tuple(reads))
