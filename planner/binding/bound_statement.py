"""Bound statements: text for DataFusion, and the tree of its query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from difflib import get_close_matches
from enum import Enum
from functools import cached_property
from typing import Final, Literal

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.transforms.determinism import has_unstable_call
from lance_gateway.planner.binding.key_query import KeyQuery
from lance_gateway.planner.bridge.distance_functions import is_vector_type
from lance_gateway.planner.bridge.types.parameter_types import plain_value, sql_literal, sql_type, to_bindable
from lance_gateway.planner.scans.changes.key_parts import KeyPart
from lance_gateway.planner.search.search_call import QueryVectors, SearchCall
from lance_gateway.planner.sql.text.as_of import AsOf
from lance_gateway.planner.sql.text.limits import check_bound_size
from lance_gateway.planner.sql.text.tokens import VECTOR, PlacedMessage
from lance_gateway.planner.sql.tree.dialect import find_query, parse_expression, read_query, write_sql
from lance_gateway.planner.sql.type_names import name_type

MAX_QUERIES = 10_000
"""The number of vectors that one subquery may give."""
# A call has parentheses, unless the name of the function begins with one of these words.
_CALL = re.compile(r"\(|\b(?:current|local|session|user)", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_PARAMETER = re.compile(r"\$\d")
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


def _represent(kind: pa.DataType) -> pa.Scalar:
    """Return a value of a type: NULL, or an empty list where DataFusion's bindings can't bind NULL."""
    empty = pa.scalar([], kind) if pa.types.is_list(kind) else None
    return pa.scalar(None, kind) if empty is None or to_bindable(empty) is None else empty


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


_WORD_BEFORE: Final = re.compile(r"([A-Za-z]+)\s+\Z")
_CLAUSES: Final = ("FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "JOIN", "UNION", "VALUES", "OFFSET")


@dataclass(frozen=True)
class BoundStatement:
    """A statement whose names are resolved.

    Attributes:
        sql: the text, as it was given.
        kind: what the statement does.
        references: the base tables that it reads, in order of appearance, with views expanded.
        parameter_count: the number of values that it needs.
        key_query: the statement as a point lookup; None where it is more than that.
        text: for DataFusion, with private table names, and with $1, $2, .. for parameters.
        root: of the tree of the query in it; None if sqlglot does not read it, or without a query.
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
        literals: ordinals of the parameters that become literals, each with a likely value; see
            `find_constants`.
        value_types: types of the values that are bound; empty where the text, or a guess, decides.
    """

    sql: str
    kind: StatementKind
    references: tuple[TableReference, ...]
    parameter_count: int
    key_query: KeyQuery | None
    text: str
    root: exp.Query | None = field(default=None, repr=False, compare=False)
    _: KW_ONLY
    system_tables: frozenset[str] = frozenset()
    distances: frozenset[str] = frozenset()
    vectors: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    sizes: Mapping[int, str] = field(default_factory=dict, repr=False, hash=False)
    computed: Mapping[int, pa.DataType | None] = field(default_factory=dict, hash=False)
    literals: Mapping[int, pa.Scalar] = field(default_factory=dict, hash=False)
    value_types: tuple[pa.DataType, ...] = ()
    joins_all: bool = False
    catalog_tables: frozenset[str] = frozenset()
    catalog_functions: frozenset[str] = frozenset()
    json_functions: frozenset[str] = frozenset()
    makes_rows: bool = False

    def read(self, text: str) -> exp.Query | None:
        """Return a new tree of the query in a text; that of the statement is not parsed again."""
        if text != self.text:
            return read_query(text)
        return None if self.root is None else self.root.copy()

    @property
    def is_unread(self) -> bool:
        """Return whether it has a query that sqlglot does not read, so that no names are resolved."""
        return self.root is None and self.kind not in {StatementKind.DESCRIBE, StatementKind.SHOW}

    @cached_property
    def lists_tables(self) -> bool:
        """Return whether its rows depend on which tables and views there are."""
        return bool(self.catalog_tables or self.catalog_functions) or self.reads_lists

    @cached_property
    def reads_lists(self) -> bool:
        """Return whether it reads DataFusion's own lists of all tables and views."""
        return self.kind is StatementKind.SHOW or _LISTS.search(self.text) is not None

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
        return _CALL.search(self.text) is None and not self.is_volatile

    @cached_property
    def has_fixed_text(self) -> bool:
        """Return whether the text for DataFusion has no parameters and is not volatile."""
        return _PARAMETER.search(self.text) is None and not self.is_volatile

    @cached_property
    def is_volatile(self) -> bool:
        """Return whether the statement names a volatile function, or a column of such a name."""
        return has_unstable_call(_WORD.findall(self.text))

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
        """Return ordinal -> type of those parameters that are arguments of search functions, or literals."""
        return {
            ordinal: kind
            for reference in self.references
            if reference.search is not None
            for ordinal, kind in reference.search.parameter_types.items()
        } | {ordinal: value.type for ordinal, value in self.literals.items()}

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
        root, ordinals = self.root, set()
        if root is None or root.find(exp.Any, exp.All) is None:
            return self, frozenset()
        root = root.copy()
        for quantified in list(root.find_all(exp.Any, exp.All)):
            value = quantified.this.unnest()
            if isinstance(value, exp.Parameter):
                ordinals.add(int(value.name) - 1)
                quantified.replace(value)
        return replace(self, text=self._write(root), root=root), frozenset(ordinals)

    def cast_parameters(self, types: Sequence[pa.DataType]) -> BoundStatement:
        """Return the statement with casts of its parameters, which DataFusion's names of columns do not show.

        Args:
            types: of the parameters.
        """
        if self.root is None:
            return self
        root = self.root.copy()
        for parameter in list(root.find_all(exp.Parameter)):
            kind = types[int(parameter.name) - 1] if parameter.name.isdecimal() else None
            if kind is not None and pa.types.is_duration(kind):
                parameter.replace(parse_expression(f"arrow_cast(${parameter.name}, '{name_type(kind)}')"))
            elif kind is not None and (name := sql_type(kind)) is not None:
                parameter.replace(parse_expression(f"CAST(${parameter.name} AS {name})"))
        return replace(self, text=self._write(root), root=root)

    def represent_values(self, types: Sequence[pa.DataType]) -> list[pa.Scalar]:
        """Return values that only represent the types of the parameters, to plan the statement with."""
        return [self.literals.get(ordinal, _represent(kind)) for ordinal, kind in enumerate(types)]

    def write_placeholders(self) -> str:
        """Return the text for DataFusion with placeholders, but for the parameters that must be literals."""
        likely = {f"{ordinal + 1}": sql_literal(value) for ordinal, value in self.literals.items()}
        return self._write_values(likely) if likely else self.text

    def without_text(self) -> BoundStatement:
        """Return the statement as processes need it that do not plan it: without the text for DataFusion."""
        slim = copy(self)
        removed = {
            "text": "",
            "root": None,
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
        if len(parameters) != self.parameter_count:
            raise InvalidInputError(
                f"The statement has {self.parameter_count} parameter(s), "
                f"and {len(parameters)} value(s) were bound"
            )
        for ordinal, function in self.sizes.items():
            check_bound_size(ordinal + 1, function, parameters[ordinal])
        values = {
            f"{i + 1}": None if i in self.literals else to_bindable(plain_value(value))
            for i, value in enumerate(parameters)
        }
        literals = {
            name: sql_literal(parameters[int(name) - 1]) for name, value in values.items() if value is None
        }
        bindable = {name: value for name, value in values.items() if value is not None}
        text = self._write_values(literals) if literals else self.text
        return text, bindable | self.constants

    def _write_values(self, literals: Mapping[str, str]) -> str:
        """Return the text with literals in the places of some parameters."""
        if self.root is None:
            return self.text
        root = self.root.copy()
        for parameter in list(root.find_all(exp.Parameter)):
            literal = literals.get(parameter.name)
            if literal is not None:
                parameter.replace(exp.Var(this=literal))
        return self._write(root)

    def _write(self, root: exp.Query) -> str:
        return self.text[: find_query(self.text)] + write_sql(root)

    def syntax_error(
        self, summary: str, place: tuple[int, int] | Literal["end"] | None = None
    ) -> InvalidInputError:
        """Return a syntax error with its place.

        Args:
            summary: what is wrong.
            place: line and column in `sql`, from 1; None if they are not known.
        """
        if place is None:
            return InvalidInputError(f"Syntax error: {summary}")
        if place == "end":
            return InvalidInputError(
                PlacedMessage(self.sql, len(self.sql.rstrip()), f"Syntax error: {summary}")
            )
        line, column = place
        lines = self.sql.split("\n")
        start = sum(len(text) + 1 for text in lines[: line - 1]) + column - 1
        before = _WORD_BEFORE.search(self.sql[:start])
        near = get_close_matches(before[1].upper(), _CLAUSES, 1, 0.7) if before else []
        if before is not None and near and near[0] != before[1].upper():
            start, summary = before.start(), f"did you mean {near[0]}?"
        return InvalidInputError(PlacedMessage(self.sql, start, f"Syntax error: {summary}"))
