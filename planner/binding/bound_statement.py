"""Bound statements: text in pieces that know their origin, with slots for parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Literal

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.transforms.determinism import has_unstable_call
from lance_gateway.planner.binding.key_query import KeyQuery
from lance_gateway.planner.bridge.distance_functions import is_vector_type
from lance_gateway.planner.bridge.types.parameter_types import plain_value, sql_literal, sql_type, to_bindable
from lance_gateway.planner.scans.changes.key_parts import KeyPart
from lance_gateway.planner.search.search_call import QueryVectors, SearchCall
from lance_gateway.planner.sql.text.as_of import AsOf
from lance_gateway.planner.sql.text.edits import Piece, Slot
from lance_gateway.planner.sql.text.limits import check_bound_size
from lance_gateway.planner.sql.text.tokens import VECTOR, PlacedMessage

MAX_QUERIES = 10_000
"""The number of vectors that one subquery may give."""
# A call has parentheses, unless the name of the function begins with one of these words.
_CALL = re.compile(r"\(|\b(?:current|local|session|user)", re.IGNORECASE)
_QUANTIFIER = re.compile(r"\b(?:ANY|SOME|ALL)\s*\(\s*$", re.IGNORECASE)
_CLOSING = re.compile(r"\s*\)")
_WORD = re.compile(r"\w+")
_LISTS = re.compile(r"information_schema(?!#)", re.IGNORECASE)


class StatementKind(Enum):
    """What a statement does."""

    QUERY = "query"
    EXPLAIN = "explain"
    EXPLAIN_ANALYZE = "explain analyze"
    EXPLAIN_ANALYZE_JSON = "explain analyze format json"
    DESCRIBE = "describe"
    SHOW = "show"

    @property
    def explains(self) -> bool:
        """Return whether the result is a plan."""
        return self is StatementKind.EXPLAIN or self.analyzes

    @property
    def analyzes(self) -> bool:
        """Return whether the result is a plan that has run."""
        return self in {StatementKind.EXPLAIN_ANALYZE, StatementKind.EXPLAIN_ANALYZE_JSON}


class StateRole(Enum):
    """What a table reference stands for in the query of `lance_changes`."""

    ROWS = "rows"
    BEFORE = "before"
    AFTER = "after"
    POSITION = "position"


@dataclass(frozen=True, slots=True)
class ComparedState:
    """That a table reference stands for one of two states that are compared.

    Attributes:
        role: its rows, without stored rows that the other state shows; the rows before or behind every single
            change between the two; or its token.
        other: the other state; None for the newest one.
        part: the keys whose changes are told; None for all of them.
    """

    role: StateRole
    other: AsOf | None
    part: KeyPart | None = None


@dataclass(frozen=True, slots=True)
class TableReference:
    """One reference to a base table.

    Attributes:
        private_name: name in the rendered text, such as "orders#1".
        table: name in the catalog.
        search: the search call that reads the table; None for the table itself.
        vectors: the subquery among the arguments of the search call.
        as_of: the past version; None for the newest one.
        compared: how it is compared with another state; None for the table by itself.
    """

    private_name: str
    table: TableName
    search: SearchCall | None = None
    vectors: VectorsStatement | None = None
    as_of: AsOf | None = None
    compared: ComparedState | None = None


@dataclass(frozen=True, slots=True)
class VectorsStatement:
    """A subquery that gives the vectors of a search; `ordinals` are its parameters in the outer statement.

        lance_vector_search('items', 'vec', (SELECT vec FROM items WHERE id = $1), k => 10)

    It runs before the search is planned. Each of its rows is a query, numbered by `query_index`.
    """

    statement: BoundStatement
    ordinals: tuple[int, ...]


def check_vectors(function: str, schema: pa.Schema) -> None:
    """Refuse a subquery whose rows are no vectors.

    Raises:
        InvalidInputError: it does not have exactly one column, of lists of numbers.
    """
    if len(schema) != 1 or not is_vector_type(schema.field(0).type):
        columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise InvalidInputError(
            f"{function}: the subquery must give one column, of vectors; it gives {columns}"
        )


def read_query_vectors(function: str, rows: pa.Table) -> QueryVectors:
    """Return the vectors that a subquery gave, one per row.

    Raises:
        InvalidInputError: they are no vectors, too many, or one of them is NULL.
    """
    check_vectors(function, rows.schema)
    if rows.num_rows > MAX_QUERIES:
        msg = (
            f"{function}: the subquery gives {rows.num_rows} vectors, and at most {MAX_QUERIES} are searched"
        )
        raise InvalidInputError(f"{msg} for at a time: add a LIMIT")
    vectors = rows.column(0)
    if vectors.null_count:
        msg = f"{function}: the subquery gives a vector that is NULL: leave it out by WHERE vec IS NOT NULL"
        raise InvalidInputError(msg)
    return QueryVectors(map(tuple, vectors.to_pylist()))


@dataclass(frozen=True)
class BoundStatement:
    """A statement whose names are resolved.

    Attributes:
        sql: the text, as it was given.
        kind: what the statement does.
        references: the base tables that it reads, in order of appearance, with views expanded.
        parameter_count: the number of values that `render` needs.
        key_query: the statement as a point lookup; None where it is more than that.
        system_tables: tables of the schema `system` that it names.
        catalog_tables: names in the text for DataFusion of tables of information_schema and pg_catalog.
        catalog_functions: likewise of functions of pg_catalog.
        distances: the distance functions that it calls.
        json_functions: the functions that it calls which read JSON.
        makes_rows: whether it reads a function of DataFusion that makes rows, as generate_series does.
        vectors: long constants that are not in the text: $vector_1 is the first one.
        joins_all: whether subqueries become joins that DataFusion refuses, besides those that it answers
            wrongly.
        sizes: ordinal -> function of the parameters whose size is limited; see `planner.sql.text.limits`.
        computed: ordinals of the parameters that are operands of arithmetic; see `find_computed`.
        value_types: types of the values that are bound; empty where the text, or a guess, decides.
        cast_types: types that parameters are cast to in the text for DataFusion, where it would not plan them
            without; empty if it does.
        spelled: `sql` in the forms that DataFusion has, from which the text for it is made.
    """

    sql: str
    kind: StatementKind
    references: tuple[TableReference, ...]
    parameter_count: int
    key_query: KeyQuery | None
    _pieces: tuple[Piece | Slot, ...] = field(repr=False)
    system_tables: frozenset[str] = frozenset()
    distances: frozenset[str] = frozenset()
    vectors: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    sizes: Mapping[int, str] = field(default_factory=dict, repr=False, hash=False)
    computed: Mapping[int, pa.DataType | None] = field(default_factory=dict, hash=False)
    value_types: tuple[pa.DataType, ...] = ()
    cast_types: tuple[pa.DataType, ...] = ()
    spelled: str = field(default="", repr=False)
    joins_all: bool = False
    catalog_tables: frozenset[str] = frozenset()
    catalog_functions: frozenset[str] = frozenset()
    json_functions: frozenset[str] = frozenset()
    makes_rows: bool = False

    @cached_property
    def lists_tables(self) -> bool:
        """Return whether its rows depend on which tables and views there are."""
        return bool(self.catalog_tables or self.catalog_functions) or self.reads_lists

    @cached_property
    def reads_lists(self) -> bool:
        """Return whether it reads DataFusion's own lists of all tables and views."""
        texts = (piece.text for piece in self._pieces if isinstance(piece, Piece))
        return self.kind is StatementKind.SHOW or any(_LISTS.search(text) for text in texts)

    @cached_property
    def has_vector_subqueries(self) -> bool:
        """Return whether subqueries that give vectors run before it is planned."""
        return any(reference.vectors for reference in self.references)

    @cached_property
    def is_constant(self) -> bool:
        """Return whether all runs certainly give the same rows: no table is read, no function is called."""
        reads = self.references or self.parameter_count or self.system_tables or self.lists_tables
        if self.kind is not StatementKind.QUERY or reads:
            return False
        calls = (_CALL.search(piece.text) for piece in self._pieces if isinstance(piece, Piece))
        return not any(calls) and not self.is_volatile

    @cached_property
    def has_fixed_text(self) -> bool:
        """Return whether the text for DataFusion has no parameters and is not volatile."""
        if any(isinstance(piece, Slot) for piece in self._pieces):
            return False
        return not self.is_volatile

    @cached_property
    def is_volatile(self) -> bool:
        """Return whether the statement names a volatile function, or a column of such a name."""
        return has_unstable_call(_WORD.findall(self.render()))

    @cached_property
    def reads_only_tables(self) -> bool:
        """Return whether it reads tables of the catalog, or nothing, and calls no function of the gateway."""
        others = self.system_tables or self.lists_tables or self.distances or self.json_functions
        return not others and all(not one.search and one.compared is None for one in self.references)

    @property
    def operand_types(self) -> Mapping[int, pa.DataType]:
        """Return ordinal -> type of those parameters that are beside an interval."""
        return {ordinal: kind for ordinal, kind in self.computed.items() if kind is not None}

    @property
    def argument_types(self) -> Mapping[int, pa.DataType]:
        """Return ordinal -> type of those parameters that are arguments of search functions."""
        return {
            ordinal: kind
            for reference in self.references
            if reference.search is not None
            for ordinal, kind in reference.search.parameter_types.items()
        }

    def render(self, parameters: Sequence[pa.Scalar] | None = None) -> str:
        """Render the text for DataFusion: private table names, and parameters as typed literals.

        Args:
            parameters: one scalar per parameter; None leaves $1, $2, ... in place, for type inference.

        Raises:
            InvalidInputError: too few or too many values, with both counts.
        """
        return "".join(text for text, _ in self._render(parameters))

    @cached_property
    def constants(self) -> dict[str, pa.Scalar]:
        """Return the values of `vectors` by their names."""
        kind = pa.list_(pa.float64())
        return {
            f"{VECTOR}{number}": pa.scalar(vector, kind)
            for number, vector in enumerate(self.vectors, start=1)
        }

    def compare_elements(self) -> tuple[BoundStatement, frozenset[int]]:
        """Return the statement with single values in the places of lists, to find their types by.

            id = ANY($1)  ->  id = $1

        Returns:
            The statement, and the ordinals of the lists.
        """
        pieces = list(self._pieces)
        ordinals = set()
        for i in range(1, len(pieces) - 1):
            before, slot, after = pieces[i - 1 : i + 2]
            if isinstance(slot, Slot) and isinstance(before, Piece) and isinstance(after, Piece):
                begin, end = _QUANTIFIER.search(before.text), _CLOSING.match(after.text)
                if begin is not None and end is not None:
                    pieces[i - 1] = replace(before, text=before.text[: begin.start()] + " ")
                    pieces[i + 1] = replace(after, text=" " + after.text[end.end() :])
                    ordinals.add(slot.ordinal)
        return replace(self, _pieces=tuple(pieces)), frozenset(ordinals)

    def without_text(self) -> BoundStatement:
        """Return the statement as processes need it that do not plan it: without the text for DataFusion."""
        slim = copy(self)
        removed = {
            "_pieces": (),
            "key_query": None,
            "vectors": (),
            "is_volatile": self.is_volatile,
            "reads_lists": self.reads_lists,
        }
        for name, value in removed.items():
            object.__setattr__(slim, name, value)
        return slim

    def with_values(self, parameters: Sequence[pa.Scalar]) -> tuple[str, dict[str, pa.Scalar]]:
        """Render the text for DataFusion with placeholders; return it with the values of these.

        Columns that are named after their expression (`SELECT id + $1`) keep the name that they had when the
        statement was prepared. Values that DataFusion's bindings can't bind become literals.

        Raises:
            InvalidInputError: too few or too many values, with both counts, or one that is too large.
            UnsupportedError: a value of a type that cannot be bound.
        """
        for ordinal, function in self.sizes.items():
            if ordinal < len(parameters):
                check_bound_size(ordinal + 1, function, parameters[ordinal])
        values = {
            f"{i + 1}": bound
            for i, value in enumerate(parameters)
            if (bound := to_bindable(plain_value(value))) is not None
        }
        rendered = self._render(parameters, frozenset(int(name) - 1 for name in values))
        return "".join(text for text, _ in rendered), values | self.constants

    def syntax_error(
        self, summary: str, place: tuple[int, int] | Literal["end"] | None = None
    ) -> InvalidInputError:
        """Return a syntax error with its place in `spelled`.

        Args:
            summary: what is wrong.
            place: line and column in the text of `render()`, from 1; None if they are not known.
        """
        if place is None:
            return InvalidInputError(f"Syntax error: {summary}")
        if place == "end":
            return InvalidInputError(
                PlacedMessage(self.spelled, len(self.spelled.rstrip()), f"Syntax error: {summary}")
            )
        line, column = place
        lines = self.render().split("\n")
        origin = self.find_origin(sum(len(text) + 1 for text in lines[: line - 1]) + column - 1)
        return InvalidInputError(PlacedMessage(self.spelled, origin, f"Syntax error: {summary}"))

    def find_origin(self, target: int) -> int:
        """Return the place in `spelled` of a character of the text of `render()`, from 0."""
        reached = 0
        for text, piece in self._render(None):
            if reached + len(text) > target:
                is_copied = isinstance(piece, Piece) and piece.verbatim
                return piece.origin + (target - reached if is_copied else 0)
            reached += len(text)
        return len(self.spelled)

    def _render(
        self, parameters: Sequence[pa.Scalar] | None, kept: frozenset[int] = frozenset()
    ) -> list[tuple[str, Piece | Slot]]:
        """Return texts with their pieces; parameters in `kept` stay placeholders."""
        if parameters is not None and len(parameters) != self.parameter_count:
            raise InvalidInputError(
                f"The statement has {self.parameter_count} parameter(s), "
                f"and {len(parameters)} value(s) were bound"
            )
        rendered: list[tuple[str, Piece | Slot]] = []
        for piece in self._pieces:
            if isinstance(piece, Piece):
                text = piece.text
            elif parameters is None or piece.ordinal in kept:
                text = f" {self._write_placeholder(piece.ordinal)} "
            else:
                text = f" {sql_literal(parameters[piece.ordinal])} "
            rendered.append((text, piece))
        return rendered

    def _write_placeholder(self, ordinal: int) -> str:
        """Return the text of a parameter, with a cast that DataFusion's names of columns do not show."""
        name = sql_type(self.cast_types[ordinal]) if self.cast_types else None
        return f"${ordinal + 1}" if name is None else f"CAST(${ordinal + 1} AS {name})"
