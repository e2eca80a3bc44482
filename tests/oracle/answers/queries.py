"""Queries drawn at random over tables that are known: every clause that touches the planner's decisions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from hypothesis import strategies as st

from tests.oracle.answers.predicates import Draw, drawn_literal, literal, predicate, value_of
from tests.oracle.replay.model import Column


@dataclass(frozen=True, slots=True)
class Table:
    """What a query may know of a table."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A drawn query.

    Attributes:
        answer: How to compare: ``rows`` in any order, ``ordered`` rows, or ``some`` rows of the answer to
            ``superset`` (a LIMIT without ORDER BY), as many as the limit allows.
        parameters: Values of ``$1``, ``$2``...; the oracle gets them as literals, in ``literal_sql``.
    """

    sql: str
    answer: Literal["rows", "ordered", "some"] = "rows"
    superset: str = ""
    limit: int = 0
    parameters: tuple[pa.Scalar, ...] = ()
    literal_sql: str = ""


def query(draw: Draw, tables: Sequence[Table]) -> Query:
    """A query over one or more of ``tables``."""
    return draw(st.sampled_from(_QUERIES))(draw, tables)


def _where(draw: Draw, table: Table, alias: str = "") -> str:
    return f" WHERE {predicate(draw, table.columns, alias)}" if draw(st.integers(0, 4)) else ""


def _some_columns(draw: Draw, table: Table, alias: str = "") -> str:
    names = draw(st.lists(st.sampled_from([column.name for column in table.columns]), min_size=1, max_size=4))
    return ", ".join(f"{alias}{name} AS c{number}" for number, name in enumerate(names))


def _filtered(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    columns = draw(st.sampled_from(("*", _some_columns(draw, table))))
    return Query(f"SELECT {columns} FROM {table.name}{_where(draw, table)}")


def _ordered(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    first = draw(st.sampled_from(table.columns)).name
    direction = draw(st.sampled_from(("", " DESC", " NULLS FIRST")))
    keys = ", ".join(table.key)
    limit = f" LIMIT {draw(st.integers(0, 5))}" if draw(st.booleans()) else ""
    offset = f" OFFSET {draw(st.integers(0, 3))}" if draw(st.booleans()) else ""
    return Query(
        f"SELECT * FROM {table.name}{_where(draw, table)} ORDER BY {first}{direction}, {keys}{limit}{offset}",
        answer="ordered",
    )


def _limited(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    superset = f"SELECT * FROM {table.name}{_where(draw, table)}"
    limit = draw(st.integers(0, 6))
    return Query(f"{superset} LIMIT {limit}", answer="some", superset=superset, limit=limit)


def _counted(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    column = draw(st.sampled_from(table.columns)).name
    what = draw(st.sampled_from(("count(*)", f"count({column})", f"count(DISTINCT {column})", "1")))
    return Query(f"SELECT {what} FROM {table.name}{_where(draw, table)}")


def _aggregated(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    group = draw(st.sampled_from(table.columns)).name
    # DataFusion 55 lets the order of rows decide about min and max where NaN is among them.
    ordered = [column.name for column in table.columns if not pa.types.is_floating(column.type)]
    value = draw(st.sampled_from(ordered))
    having = draw(st.sampled_from(("", " HAVING count(*) > 1")))
    return Query(
        f"SELECT {group}, count(*), count({value}), min({value}), max({value}) FROM {table.name}"
        f"{_where(draw, table)} GROUP BY {group}{having}"
    )


def _summed(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    return Query(
        f"SELECT sum(n), avg(n), max(n) FILTER (WHERE n < 5) AS m FROM {table.name}{_where(draw, table)}"
    )


def _distinct_rows(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    return Query(f"SELECT DISTINCT {_some_columns(draw, table)} FROM {table.name}{_where(draw, table)}")


def _point(draw: Draw, tables: Sequence[Table]) -> Query:
    """A point lookup, by literals or parameters, bare or beside another conjunct."""
    table = draw(st.sampled_from(tables))
    by_name = {column.name: column for column in table.columns}
    values = {name: value_of(draw, by_name[name].type) for name in table.key}
    extra = f" AND {predicate(draw, table.columns, depth=0)}" if draw(st.integers(0, 2)) == 0 else ""
    columns = draw(st.sampled_from(("*", "n", "count(*)")))

    def text(spell: Callable[[int, str], str]) -> str:
        equalities = [f"{name} = {spell(number, name)}" for number, name in enumerate(table.key, 1)]
        return f"SELECT {columns} FROM {table.name} WHERE {' AND '.join(equalities)}{extra}"

    literal_sql = text(lambda _, name: literal(values[name], by_name[name].type))
    if draw(st.booleans()):
        return Query(literal_sql)
    parameters = tuple(pa.scalar(values[name], by_name[name].type) for name in table.key)
    return Query(text(lambda number, _: f"${number}"), parameters=parameters, literal_sql=literal_sql)


def _key_list(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    by_name = {column.name: column for column in table.columns}
    conjuncts = []
    for name in table.key:
        items = [drawn_literal(draw, by_name[name]) for _ in range(draw(st.integers(1, 6)))]
        if draw(st.integers(0, 3)) == 0:
            items.append("NULL")
        conjuncts.append(f"{name} IN ({', '.join(items)})")
    return Query(f"SELECT * FROM {table.name} WHERE {' AND '.join(conjuncts)}")


def _joined(draw: Draw, tables: Sequence[Table]) -> Query:
    left, right = (draw(st.sampled_from(tables)) for _ in range(2))
    pairs = [(a.name, b.name) for a in left.columns for b in right.columns if a.type == b.type]
    on = [draw(st.sampled_from(pairs)) for _ in range(draw(st.integers(1, 2)))]
    kind = draw(
        st.sampled_from(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
    )
    condition = " AND ".join(f"x.{a} = y.{b}" for a, b in on)
    if draw(st.integers(0, 3)) == 0:
        condition += f" AND {predicate(draw, right.columns, 'y.', 0)}"
    one_sided = "LEFT " in kind and kind != "LEFT JOIN"
    columns = _some_columns(draw, left, "x.")
    if not one_sided:
        columns += f", y.{right.key[0]} AS k, y.n AS m"
    where = _where(draw, left, "x.")
    return Query(f"SELECT {columns} FROM {left.name} x {kind} {right.name} y ON {condition}{where}")


def _subquery(draw: Draw, tables: Sequence[Table]) -> Query:
    outer, inner = (draw(st.sampled_from(tables)) for _ in range(2))
    where = _where(draw, inner, "i.")
    narrowed = predicate(draw, inner.columns, "i.", 1)
    matched = f"SELECT 1 FROM {inner.name} i WHERE i.n = o.n"
    shapes = (
        f"SELECT * FROM {outer.name} WHERE n IN (SELECT n FROM {inner.name} i{where})",
        f"SELECT * FROM {outer.name} o WHERE EXISTS ({matched} AND {narrowed})",
        f"SELECT * FROM {outer.name} o WHERE NOT EXISTS ({matched})",
        f"SELECT n, (SELECT count(*) FROM {inner.name} i WHERE i.n = o.n) AS c FROM {outer.name} o",
        f"SELECT * FROM (SELECT * FROM {outer.name}{_where(draw, outer)}) d{_where(draw, outer, 'd.')}",
    )
    return Query(draw(st.sampled_from(shapes)))


def _set_operation(draw: Draw, tables: Sequence[Table]) -> Query:
    left, right = (draw(st.sampled_from(tables)) for _ in range(2))
    operator = draw(st.sampled_from(("UNION", "UNION ALL", "EXCEPT", "INTERSECT")))
    sides = [f"SELECT n, s FROM {table.name}{_where(draw, table)}" for table in (left, right)]
    return Query(f" {operator} ".join(sides))


def _with(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    return Query(
        f"WITH c AS (SELECT * FROM {table.name}{_where(draw, table)}) "
        f"SELECT a.{table.key[0]}, b.n FROM c a JOIN c b ON a.{table.key[0]} = b.{table.key[0]}"
        f"{_where(draw, table, 'b.')}"
    )


def _windowed(draw: Draw, tables: Sequence[Table]) -> Query:
    table = draw(st.sampled_from(tables))
    keys = ", ".join(table.key)
    number = f"row_number() OVER (PARTITION BY n ORDER BY {keys}) AS r"
    return Query(f"SELECT {keys}, {number} FROM {table.name}{_where(draw, table)}")


_QUERIES: tuple[Callable[[Draw, Sequence[Table]], Query], ...] = (
    _filtered,
    _filtered,
    _filtered,
    _point,
    _point,
    _key_list,
    _ordered,
    _limited,
    _counted,
    _aggregated,
    _summed,
    _distinct_rows,
    _joined,
    _joined,
    _subquery,
    _set_operation,
    _with,
    _windowed,
)
