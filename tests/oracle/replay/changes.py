"""Statements that change a table, drawn at random, with what each must do to the oracle's rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

from tests.oracle.answers.answers import Oracle
from tests.oracle.answers.predicates import Draw, literal, predicate, value_of
from tests.oracle.replay.model import Cells, Column, Key, TableModel

Follows: TypeAlias = Mapping[int, Callable[[dict[str, Any]], Any]]


@dataclass(frozen=True)
class Target:
    """What a statement may know of a table.

    Attributes:
        follows: By field id, how a column's value follows from the key.
    """

    name: str
    model: TableModel
    follows: Follows

    @property
    def key(self) -> tuple[str, ...]:
        return self.model.key

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.model.columns

    @property
    def free(self) -> list[Column]:
        """The columns that are neither of the key nor follow from it."""
        return [one for one in self.columns if one.name not in self.key and one.field_id not in self.follows]

    def column(self, name: str) -> Column:
        return next(one for one in self.columns if one.name == name)


@dataclass(frozen=True)
class Change:
    """A drawn statement.

    Attributes:
        rows: The new cells of each key that it changes, None for a deleted one, in any order.
        affected: How many rows it must say it affected.
        parameters: Values of ``$1``, ``$2``...
        many: Rows of parameters, for which the statement is executed many times; None for once.
        ingested: Rows to send in bulk instead of a statement.
    """

    sql: str
    rows: dict[Key, Cells | None]
    affected: int
    parameters: tuple[pa.Scalar, ...] = ()
    many: pa.Table | None = None
    ingested: pa.Table | None = None


def draw_rows(draw: Draw, target: Target, *, most: int = 4) -> list[dict[str, Any]]:
    """Draw rows with all columns of a table; some may have the same key."""
    rows = []
    for _ in range(draw(st.integers(1, most))):
        row = {
            one.name: value_of(draw, one.type, nullable=one.name not in target.key) for one in target.columns
        }
        named = {one.field_id: one.name for one in target.columns}
        row |= {named[field]: compute(row) for field, compute in target.follows.items() if field in named}
        rows.append(row)
    return rows


def _cells(target: Target, row: Mapping[str, Any]) -> Cells:
    return {one.field_id: row.get(one.name) for one in target.columns}


def _by_key(target: Target, rows: Sequence[Mapping[str, Any]]) -> dict[Key, Cells | None]:
    """Of several rows of one key the last counts."""
    return {tuple(row[name] for name in target.key): _cells(target, row) for row in rows}


def values(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> str:
    """Return rows as those of VALUES."""

    def text(row: Mapping[str, Any]) -> str:
        return f"({', '.join(literal(row[one.name], one.type) for one in columns)})"

    return ", ".join(map(text, rows))


def _named(columns: Sequence[Column]) -> str:
    return ", ".join(f'"{one.name}"' for one in columns)


def _inserted_values(draw: Draw, target: Target, _: Target) -> Change:
    """INSERT .. VALUES of all columns or of some, in any order."""
    rows = draw_rows(draw, target)
    columns = list(target.columns)
    head = f"INSERT INTO {target.name}"
    if draw(st.booleans()):
        dropped = draw(st.lists(st.sampled_from(target.free), unique=True)) if target.free else []
        columns = draw(st.permutations([one for one in columns if one not in dropped]))
        rows = [{one.name: row[one.name] for one in columns} for row in rows]
        head += f" ({_named(columns)})"
    sql = f"{head} VALUES {values(rows, columns)}"
    return Change(sql, _by_key(target, rows), len(rows))


def _inserted_parameters(draw: Draw, target: Target, _: Target) -> Change:
    (row,) = draw_rows(draw, target, most=1)
    marks = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    values = tuple(pa.scalar(row[one.name], one.type) for one in target.columns)
    sql = f"INSERT INTO {target.name} ({_named(target.columns)}) VALUES ({marks})"
    return Change(sql, _by_key(target, [row]), 1, parameters=values)


def _inserted_many(draw: Draw, target: Target, _: Target) -> Change:
    rows = draw_rows(draw, target, most=6)
    marks = ", ".join(f"${number}" for number in range(1, len(target.columns) + 1))
    arrays = [pa.array([row[one.name] for row in rows], one.type) for one in target.columns]
    many = pa.table(arrays, [str(number) for number in range(1, len(arrays) + 1)])
    sql = f"INSERT INTO {target.name} VALUES ({marks})"
    return Change(sql, _by_key(target, rows), len(rows), many=many)


def _ingested(draw: Draw, target: Target, _: Target) -> Change:
    rows = draw_rows(draw, target, most=6)
    arrays = [pa.array([row[one.name] for row in rows], one.type) for one in target.columns]
    table = pa.table(arrays, [one.name for one in target.columns])
    return Change(f"ingest into {target.name}", _by_key(target, rows), len(rows), ingested=table)


def _inserted_query(draw: Draw, target: Target, other: Target) -> Change:
    """INSERT .. SELECT of the key and the columns that both tables have."""
    columns = [target.column(name) for name in target.key]
    columns += [
        one
        for one in target.free
        if any(one.name == two.name and one.type == two.type for two in other.columns)
    ]
    if target.follows:
        return _inserted_values(draw, target, other)
    where = f" WHERE {predicate(draw, other.columns)}" if draw(st.booleans()) else ""
    query = f"SELECT {_named(columns)} FROM {other.name}{where}"
    rows = _oracle(target, other).answer(query).to_pylist()
    return Change(f"INSERT INTO {target.name} ({_named(columns)}) {query}", _by_key(target, rows), len(rows))


def _inserted_where_absent(draw: Draw, target: Target, _: Target) -> Change:
    rows = draw_rows(draw, target)
    unique = list({repr([row[name] for name in target.key]): row for row in rows}.values())
    live = target.model.rows()
    new = [row for row in unique if tuple(row[name] for name in target.key) not in live]
    sql = (
        f"INSERT INTO {target.name} ({_named(target.columns)}) "
        f"VALUES {values(unique, target.columns)} ON CONFLICT DO NOTHING"
    )
    return Change(sql, _by_key(target, new), len(new))


def _assigned(draw: Draw, column: Column, columns: Sequence[Column]) -> str:
    """An expression that a column may be set to."""
    same = [one for one in columns if one.type == column.type]
    shapes = [
        literal(value_of(draw, column.type, nullable=True), column.type),
        f'"{draw(st.sampled_from(same)).name}"',
        f'CASE WHEN {predicate(draw, columns, depth=0)} THEN "{column.name}" END',
    ]
    if pa.types.is_integer(column.type):
        shapes += [f'"{column.name}" % 3', f'coalesce("{column.name}", 0) % 7 + 1']
    if pa.types.is_string(column.type):
        shapes.append(f"coalesce(\"{column.name}\", '') || 'x'")
    return draw(st.sampled_from(shapes))


def _updated(draw: Draw, target: Target, _: Target) -> Change:
    if not target.free:
        return _deleted(draw, target, _)
    where = f" WHERE {predicate(draw, target.columns)}" if draw(st.integers(0, 4)) else ""
    changed = draw(st.lists(st.sampled_from(target.free), unique=True, min_size=1, max_size=2))
    assigned = {one: _assigned(draw, one, target.columns) for one in changed}
    selected = ", ".join(
        f'CAST({assigned[one]} AS {_SQL_TYPES[one.type]}) AS "{one.name}"'
        if one in assigned
        else f'"{one.name}"'
        for one in target.columns
    )
    rows = _oracle(target).answer(f"SELECT {selected} FROM {target.name}{where}").to_pylist()
    sets = ", ".join(f'"{one.name}" = {value}' for one, value in assigned.items())
    return Change(f"UPDATE {target.name} SET {sets}{where}", _by_key(target, rows), len(rows))


def _deleted(draw: Draw, target: Target, _: Target) -> Change:
    where = f" WHERE {predicate(draw, target.columns)}" if draw(st.integers(0, 9)) else ""
    rows = _oracle(target).answer(f"SELECT {_named(target.columns)} FROM {target.name}{where}").to_pylist()
    gone = dict.fromkeys(_by_key(target, rows))
    return Change(f"DELETE FROM {target.name}{where}", gone, len(rows))


def _merged(draw: Draw, target: Target, other: Target) -> Change:
    """MERGE with a table of the same key; matched rows are updated or deleted, others inserted."""
    if target.follows:
        return _updated(draw, target, other)
    key = [target.column(name) for name in target.key]
    shared = [
        one
        for one in target.free
        if any(one.name == two.name and one.type == two.type for two in other.columns)
    ]
    on = " AND ".join(f'{target.name}."{one.name}" = s."{one.name}"' for one in key)
    oracle = _oracle(target, other)
    live = target.model.rows()
    deletes, updates = draw(st.booleans()), bool(shared) and draw(st.booleans())
    inserts = draw(st.booleans()) or not (deletes or updates)
    condition = predicate(draw, other.columns, "s.", 0)
    taken = ", ".join(f's."{one.name}"' for one in [*key, *shared])
    hit = f"coalesce({condition}, false) AS hit"
    source = oracle.answer(f"SELECT {taken}, {hit} FROM {other.name} s").to_pylist()
    clauses = [f"MERGE INTO {target.name} USING {other.name} AS s ON {on}"]
    if deletes:
        clauses.append(f"WHEN MATCHED AND {condition} THEN DELETE")
    if updates:
        sets = ", ".join(f'"{one.name}" = s."{one.name}"' for one in shared)
        clauses.append(f"WHEN MATCHED THEN UPDATE SET {sets}")
    if inserts:
        columns = [*key, *shared]
        values = ", ".join(f's."{one.name}"' for one in columns)
        clauses.append(f"WHEN NOT MATCHED THEN INSERT ({_named(columns)}) VALUES ({values})")
    rows: dict[Key, Cells | None] = {}
    for row in source:
        identity = tuple(row[name] for name in target.key)
        if identity in live:
            if deletes and row["hit"]:
                rows[identity] = None
            elif updates:
                present = {one.field_id: live[identity].get(one.field_id) for one in target.columns}
                rows[identity] = present | {one.field_id: row[one.name] for one in shared}
        elif inserts:
            rows[identity] = _cells(target, row)
    return Change(" ".join(clauses), rows, len(rows))


def _oracle(*targets: Target) -> Oracle:
    return Oracle({one.name: one.model.table() for one in targets})


_SQL_TYPES = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP(6)",
    pa.decimal128(10, 2): "DECIMAL(10, 2)",
}

CHANGES: Mapping[str, Callable[[Draw, Target, Target], Change]] = {
    "insert values": _inserted_values,
    "insert parameters": _inserted_parameters,
    "insert many": _inserted_many,
    "insert query": _inserted_query,
    "insert where absent": _inserted_where_absent,
    "update": _updated,
    "delete": _deleted,
    "merge": _merged,
    "ingest": _ingested,
}
"""What a statement does to its first table; it may read the second one."""
