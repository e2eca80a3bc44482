"""Which leaves of a plan tell, by the keys of joins, which rows of others count."""

import pyarrow as pa
import pytest
from datafusion import SessionContext

from lance_gateway.planner.bridge.join_graph import read_join_graph
from lance_gateway.planner.bridge.plan_reading import columns_of

TABLES = {"t": ["id", "k", "g"], "u": ["id", "k", "h"], "w": ["id", "m"]}


@pytest.fixture(scope="module")
def context() -> SessionContext:
    context = SessionContext()
    for name, columns in TABLES.items():
        context.register_record_batches(name, [[pa.record_batch({column: [1] for column in columns})]])
    return context


GRAPHS = {
    "inner joins tell both ways": (
        "SELECT t.g, u.h FROM t, u WHERE t.k = u.id AND u.h > 3",
        {"t.k -> u.id", "u.id -> t.k"},
    ),
    "several keys": (
        "SELECT t.g FROM t JOIN u ON t.k = u.k AND t.id = u.id",
        {"t.k -> u.k", "u.k -> t.k", "t.id -> u.id", "u.id -> t.id"},
    ),
    "rows of a left join's left side stay": (
        "SELECT t.g, u.h FROM t LEFT JOIN u ON t.k = u.id",
        {"t.k -> u.id"},
    ),
    "rows of a right join's right side stay": (
        "SELECT t.g, u.h FROM t RIGHT JOIN u ON t.k = u.id",
        {"u.id -> t.k"},
    ),
    "a full join drops none": ("SELECT t.g, u.h FROM t FULL JOIN u ON t.k = u.id", set()),
    "EXISTS": (
        "SELECT g FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.k)",
        {"t.k -> u.id", "u.id -> t.k"},
    ),
    "NOT EXISTS": ("SELECT g FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.id = t.k)", set()),
    "NOT IN": ("SELECT g FROM t WHERE k NOT IN (SELECT id FROM u)", set()),
    "equal, or both NULL": ("SELECT t.g FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.id", set()),
    "names of subqueries, and computed columns beside": (
        (
            "SELECT a.i FROM (SELECT k AS i, g + 1 AS j FROM t) a "
            "JOIN (SELECT id AS j, h FROM u) b ON a.i = b.j WHERE a.j > 1"
        ),
        {"t.k -> u.id", "u.id -> t.k"},
    ),
    "computed keys": ("SELECT t.g FROM t JOIN (SELECT id + 1 AS j FROM u) b ON t.k = b.j", set()),
    "through another join": (
        "SELECT t.g FROM (SELECT t.k, u.h FROM t JOIN u ON t.id = u.id) a JOIN w ON a.h = w.id, t",
        {"t.id -> u.id", "u.id -> t.id", "u.h -> w.id", "w.id -> u.h"},
    ),
    "groups stop": (
        "SELECT a.n FROM (SELECT k, count(*) AS n FROM t GROUP BY k) a JOIN u ON a.k = u.id",
        set(),
    ),
    "limits stop": ("SELECT a.g FROM (SELECT * FROM t LIMIT 3) a JOIN u ON a.k = u.id", set()),
    "keys tell of all parts of a union, and none of these of keys": (
        (
            "SELECT a.k FROM (SELECT k FROM t UNION ALL SELECT m FROM w UNION ALL SELECT 7) a "
            "JOIN u ON a.k = u.id"
        ),
        {"u.id -> t.k", "u.id -> w.m"},
    ),
    "a join above one part of a union": (
        "SELECT t.k FROM t JOIN u ON t.k = u.id UNION ALL SELECT m FROM w",
        {"t.k -> u.id", "u.id -> t.k"},
    ),
    "a union in the other side": (
        (
            "SELECT t.k FROM (SELECT id FROM u UNION ALL SELECT m FROM w) a JOIN t ON a.id = t.k "
            "JOIN u ON t.g = u.h"
        ),
        {"t.k -> u.id", "t.k -> w.m", "t.g -> u.h", "u.h -> t.g"},
    ),
    "windows stop": (
        "SELECT a.n FROM (SELECT k, row_number() OVER (ORDER BY g) AS n FROM t) a JOIN u ON a.k = u.id",
        set(),
    ),
    "a column that an outer join may make NULL": (
        "SELECT a.g, w.m FROM (SELECT t.g, u.h FROM t LEFT JOIN u ON t.k = u.id) a LEFT JOIN w ON a.h = w.id",
        {"t.k -> u.id", "u.h -> w.id"},
    ),
}


@pytest.mark.parametrize(("sql", "expected"), GRAPHS.values(), ids=GRAPHS.keys())
def test_edges(context: SessionContext, sql: str, expected: set[str]) -> None:
    graph = read_join_graph(context.sql(sql).optimized_logical_plan())
    told = {
        f"{graph.leaves[edge.source.leaf]}.{edge.source.name} -> "
        f"{graph.leaves[edge.target.leaf]}.{edge.target.name}"
        for edge in graph.edges
    }
    assert told == expected


def test_a_table_in_two_places_is_two_leaves(context: SessionContext) -> None:
    sql = "WITH c AS (SELECT * FROM t WHERE g > 1) SELECT a.g FROM c a JOIN c b ON a.id = b.k"
    graph = read_join_graph(context.sql(sql).optimized_logical_plan())
    assert graph.leaves == ("t", "t")
    assert {(edge.source.leaf, edge.source.name, edge.target.leaf) for edge in graph.edges} == {
        (0, "id", 1),
        (1, "k", 0),
    }


def test_conditions_on_leaves(context: SessionContext) -> None:
    sql = "SELECT t.g FROM t, u WHERE t.k = u.id AND t.g % 2 = 1 AND u.h IN (1, 2, 3, 4) AND t.id + u.k > 3"
    graph = read_join_graph(context.sql(sql).optimized_logical_plan())
    assert [len(above) for above in graph.above] == [1, 1]
    assert not any(graph.own)  # a table in memory applies none
    limited = "SELECT a.g FROM (SELECT * FROM t LIMIT 3) a WHERE a.g > 1"
    assert not any(read_join_graph(context.sql(limited).optimized_logical_plan()).above)


def test_conditions_with_subqueries_are_left_out(context: SessionContext) -> None:
    subqueries = "k > (SELECT max(k) FROM u) AND coalesce((SELECT min(m) FROM w), 0) < id"
    sql = f"SELECT g FROM t WHERE g > 1 AND {subqueries}"
    (above, *_) = read_join_graph(context.sql(sql).optimized_logical_plan()).above
    assert [list(columns_of(one)) for one in above] == [[("t", "g")]]
