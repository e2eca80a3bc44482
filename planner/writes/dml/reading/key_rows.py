"""Rows that a condition names by their keys. They are looked up without a plan, then filtered.

WHERE id = $1 AND revision = 7      the row with that key, if its revision is 7
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lance_gateway.execnodes import KeySet
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.binding.key_query import KeyQuery
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.bridge.types.plain_types import bind_value, normalize_schema, plain_type
from lance_gateway.planner.scans.settings import Shortcut
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.writes.dml.reading.read_rows import PLACE, PlannedRows, ReadStep, number_keys
from lance_gateway.planner.writes.dml.reading.rows_query import RowsQuery
from lance_gateway.planner.writes.dml.statement.target import Target
from lance_gateway.planner.writes.dml.statement.text import ReadSession, SourceQuery, Splice, Statement
from lance_gateway.planner.writes.dml.statement.tree import fold_name
from lance_gateway.planner.writes.dml.values.assignment import read_constant
from lance_gateway.planner.writes.dml.values.set_clause import SetColumns

_SHORTCUTS = frozenset({Shortcut.WRITE_LOOKUPS, Shortcut.KEY_QUERIES, Shortcut.KEY_LOOKUPS})

MANY_KEYS = 4096
"""With more keys than this, one scan replaces the lookups."""


@dataclass(frozen=True, eq=False)
class KeyRows:
    """Rows that are looked up by their keys.

    Attributes:
        session: session that reads.
        target: table that is written; the key decides about the region of a row.
        key_query: values of the key; a number is an index into `ordinals`.
        ordinals: ordinals of the parameters that the key equals.
        columns: columns of the target that are read.
        expressions: evaluates SET and filters the rows; None if there is neither.
        plan: plans a query for the same rows, for values that are not exactly of the key's type.
    """

    session: ReadSession
    target: Target
    key_query: KeyQuery
    ordinals: tuple[int, ...]
    columns: tuple[str, ...]
    expressions: RowsQuery | None
    plan: Callable[[], PlannedRows]

    source_queries = ()

    @property
    def explained_query(self) -> SourceQuery:
        """The query that finds the same rows."""
        return self.plan().read

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows and the expressions."""
        if self.expressions is not None:
            return self.expressions.schema
        return pa.schema([self.target.base.schema.field(name) for name in self.columns])

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal in the statement -> expected type."""
        types = {} if self.expressions is None else self.expressions.parameter_types
        return types | dict(zip(self.ordinals, self._list_key_types(), strict=True))

    @property
    def summary(self) -> str:
        """Description for EXPLAIN."""
        return "the region of each key is claimed"

    def begin(self, parameters: Sequence[pa.Scalar], control: RunControl) -> ReadStep:
        """Return the step that looks up the keys."""
        types = zip(self.ordinals, self._list_key_types(), strict=True)
        values = [bind_value(at + 1, parameters[at], kind) for at, kind in types]
        base = self.target.base
        keys = self.key_query.find_keys(values, base.schema, base.uuid_columns)
        if keys is None:
            return self.plan().begin(parameters, control)

        def rows() -> pa.Table:
            matches = rows_of_keys(self.session, self.target, keys, self.columns, control)
            if self.expressions is None or not matches.num_rows:
                return matches
            return self.expressions.execute({self.target.name: matches}, parameters, control)

        return ReadStep(lambda writer: writer.find_regions(keys), rows, is_whole=True)

    def _list_key_types(self) -> list[pa.DataType]:
        places = {
            place: self.target.base.schema.field(name).type
            for name, constants in self.key_query.constants
            for place in constants
            if isinstance(place, int)
        }
        return [plain_type(places[at]) for at in range(len(self.ordinals))]


Rows: TypeAlias = PlannedRows | KeyRows
"""Rows that a statement reads."""


def plan_key_rows(
    session: ReadSession,
    statement: Statement[Any],
    target: Target,
    columns: SetColumns,
    prefix: str,
    wanted: Sequence[str],
    plan: Callable[[], PlannedRows],
) -> KeyRows | None:
    """Plan a lookup of the rows of a condition by their keys.

    Args:
        session: session that reads, at consistency "strong".
        statement: an UPDATE or DELETE with WHERE.
        target: table that is written.
        columns: expressions of SET.
        prefix: prefix of their names.
        wanted: columns of the target to read.
        plan: plans a query for the same rows.

    Returns:
        None if the rows must be read by a query, which also reports errors in the condition.
    """
    conditions = None
    if session.settings.shortcuts >= _SHORTCUTS and not target.region_columns:
        conditions = _split_key_conditions(statement, target)
    if conditions is None:
        return None
    key_query, ordinals, rest = conditions
    needed = tuple(target.schema.names if rest else wanted)
    expressions = None
    if columns.expressions or rest:
        splice = Splice(statement).add("SELECT ").add(", ".join(map(quote, wanted)))
        columns.add_to(splice, prefix)
        splice.add(f" FROM {target.relation(statement.name)} WHERE TRUE")
        for part in rest:
            splice.add(" AND (").copy(part).add(")")
        computed = splice.build()
        if set(ordinals).intersection(computed.ordinals):
            return None  # The parameter would be compared as two types.
        schema = normalize_schema(pa.schema([target.base.schema.field(one) for one in needed]))
        try:
            expressions = RowsQuery(computed, {target.name: schema})
        except LanceGatewayError:
            # Mostly subqueries, which work in a planned query.
            return None
    return KeyRows(session, target, key_query, ordinals, needed, expressions, plan)


def _split_key_conditions(
    statement: Statement[Any], target: Target
) -> tuple[KeyQuery, tuple[int, ...], list[exp.Expr]] | None:
    """Split a condition into keys given by = or IN, ordinals of their parameters, and the other conjuncts."""
    condition = statement.tree.args["where"].this
    equals: dict[str, list[exp.Expr]] = {}
    rest: list[exp.Expr] = []
    for part in condition.flatten(unnest=False) if isinstance(condition, exp.And) else [condition]:
        column, values = _read_comparison(part, statement.name)
        if column not in target.key:
            rest.append(part)
        elif column in equals or (len(values) > 1 < len(target.key)):
            return None
        else:
            equals[column] = values
    if set(equals) != set(target.key):
        return None
    ordinals: list[int] = []
    constants: list[tuple[str, tuple[pa.Scalar | int, ...]]] = []
    for column in target.key:
        key_values: list[pa.Scalar | int] = []
        for value in equals[column]:
            ordinal = statement.parameter(value)
            constant = read_constant(value) if ordinal is None else None
            if ordinal is not None:
                key_values.append(len(ordinals))
                ordinals.append(ordinal)
            elif constant is not None and constant.scalar is not None:
                key_values.append(constant.scalar)
            else:
                return None
        constants.append((column, tuple(key_values)))
    query = KeyQuery(target.name, (), tuple(constants))
    # A literal of another type must be compared by a query.
    if (
        len(set(ordinals)) < len(ordinals)
        or query.find_keys(_make_nulls(ordinals), target.base.schema) is None
    ):
        return None
    return query, tuple(ordinals), rest


def _make_nulls(values: Sequence[object]) -> list[pa.Scalar]:
    return [pa.scalar(None)] * len(values)


def _read_comparison(condition: exp.Expr, table: str) -> tuple[str, list[exp.Expr]]:
    """Return the column of `id = ..` or `t.id IN (..)`, and its values; "" for other conditions."""
    match condition:
        case exp.EQ(this=exp.Column() as column, expression=value):
            values = [value]
        case exp.In(this=exp.Column() as column, expressions=[*values]) if values:
            pass
        case _:
            return "", []
    *qualifiers, name = map(fold_name, column.parts)
    return (name, values) if qualifiers in ([], [table]) else ("", [])


def rows_of_keys(
    session: ReadSession, target: Target, keys: pa.Table, columns: Sequence[str], control: RunControl
) -> pa.Table:
    """Read the rows that have certain keys, in any order.

    Args:
        session: session that reads at consistency "strong".
        target: table.
        keys: distinct, complete keys; key columns in key order.
        columns: columns to read.
        control: cancels the execution.

    Raises:
        LanceGatewayError: reading failed.
    """
    base = target.base.schema
    schema = pa.schema([base.field(name) for name in columns])
    if not keys.num_rows:
        return schema.empty_table()
    looks_up = session.settings.shortcuts.issuperset((Shortcut.WRITE_LOOKUPS, Shortcut.KEY_LOOKUPS))
    if keys.num_rows > MANY_KEYS or not looks_up:
        return _scan_for_keys(session, target, keys, columns, control).cast(schema)
    key_set = KeySet(keys.cast(pa.schema([base.field(name) for name in target.key])))
    batches = session.engine.look_up_rows(target.secured, key_set, columns, session.settings, control)
    return pa.Table.from_batches(batches, schema)


def _scan_for_keys(
    session: ReadSession, target: Target, keys: pa.Table, columns: Sequence[str], control: RunControl
) -> pa.Table:
    """Read the rows by one scan of the table, which is cheaper than very many lookups."""
    names = list(dict.fromkeys((*target.key, *columns)))
    sql = f"SELECT {', '.join(map(quote, names))} FROM {target.name.sql}"  # noqa: S608 - quoted names
    reader = session.engine.prepare(sql, session.settings, session.access).execute((), None, control)
    wanted = keys.cast(pa.schema([reader.schema.field(name) for name in target.key]))
    matches = [reader.schema.empty_table()]
    first = target.key[0]
    values = wanted.column(first).combine_chunks()
    for batch in reader:
        some = pa.table(batch.filter(pc.is_in(batch.column(first), value_set=values)))
        if len(target.key) > 1 and some.num_rows:
            numbered = number_keys(some, target.key)
            some = some.take(numbered.join(wanted, list(target.key), join_type="left semi").column(PLACE))
        matches.append(some)
    return pa.concat_tables(matches).select(list(columns))
