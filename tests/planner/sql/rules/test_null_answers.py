"""Statements that rules rewrite have the answers of DuckDB, also where a value is NULL."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from tests.support.judging.judged import Judged, open_judged

LISTS = pa.list_(pa.int64())
ROWS = [
    {"id": 1, "i": None, "s": None, "l": None, "m": [1]},
    {"id": 2, "i": 1, "s": "", "l": [], "m": None},
    {"id": 3, "i": 2, "s": "abc", "l": [1, 2], "m": []},
    {"id": 4, "i": 7, "s": "a\nb", "l": [1, None], "m": [1, 2]},
    {"id": 5, "i": None, "s": "x", "l": None, "m": []},
]
TABLE = pa.Table.from_pylist(
    ROWS,
    pa.schema([("id", pa.int64()), ("i", pa.int64()), ("s", pa.string()), ("l", LISTS), ("m", LISTS)]),
)
CONDITIONS = (
    "NOT (i IN (1) AND i IN (2))",
    "i NOT IN (1) OR i NOT IN (2)",
    "i NOT IN (1, 7) OR i NOT IN (2, 3)",
    "NOT (i IN (1, 2) AND i NOT IN (1, 2, 3))",
    "NOT (i IN (1, NULL) AND i IN (2, 7))",
    "NOT ((i = 1 OR i = 2) AND (i = 3 OR 4 = i))",
    "NOT (i IN (1, 2, 3, 4, 5) AND (i = 11 OR i = 12 OR i = 13 OR i = 14))",
    "NOT (i + 1 IN (1, 2) AND i + 1 IN (3, 4))",
    "NOT (s IN ('a', 'b') AND s IN ('abc', 'd'))",
    "CASE WHEN i IN (1) AND i IN (2) THEN false ELSE i NOT IN (3) OR i NOT IN (4) END",
    "coalesce(i NOT IN (1) OR i NOT IN (2), s = 'x')",
    "s ~ '(?s).*'",
    "NOT (s ~ '(?s).*')",
    "array_has_all(l, [])",
    "NOT array_has_any(l, [])",
    "array_has_all(l, m)",
    "NOT array_has_any(m, l)",
    "l @> m",
    "NOT (m <@ l)",
    "i = ANY (ARRAY[1, NULL])",
    "i = ANY ([1, NULL])",
    "NOT (i = ANY (ARRAY[i + 1, NULL]))",
    "i <> ALL (ARRAY[1, NULL])",
    "i ^ 2 = 4",
    "2 ^ i ^ 2 = 16",
)
LISTS_OF_ROWS = "SELECT id, i AS j, i IN (1, 2, 3, 4, 5) AS a, i IN (11, 12, 13, 14, 15) AS b FROM t"
QUERIES = (
    f"SELECT id FROM ({LISTS_OF_ROWS}) AS x WHERE NOT (a AND b)",
    f"SELECT id FROM ({LISTS_OF_ROWS}) AS x WHERE NOT (a AND j IN (11, 12, 13, 14, 15))",
    "WITH x AS (SELECT id, i NOT IN (1) AS a, i FROM t) SELECT id, a OR i NOT IN (2) AS b FROM x",
    "SELECT i IN (1) AS a, count(*) AS n FROM t GROUP BY i IN (1), i IN (2)",
    "SELECT i IN (1) AS a, i IN (2) AS b, count(*) AS n FROM t GROUP BY 1, i IN (2) HAVING NOT (i IN (2))",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("null"), {"t": TABLE}) as opened:
        yield opened


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_is_null_where_it_should_be(condition: str, judged: Judged) -> None:
    judged.check(f"SELECT id, {condition} AS x FROM t")
    judged.check(f"SELECT id FROM t WHERE {condition}")
    judged.check(f"SELECT id FROM t WHERE ({condition}) IS NULL")


@pytest.mark.parametrize("sql", QUERIES)
def test_conditions_of_subqueries(sql: str, judged: Judged) -> None:
    judged.check(sql)


def test_a_pattern_may_be_a_parameter(judged: Judged) -> None:
    query = judged.engine.prepare("SELECT id FROM t WHERE (s ~ $1) IS NULL")
    rows = query.execute([pa.scalar(".*")]).read_all()
    assert rows.column("id").to_pylist() == [1]


def test_a_logarithm_keeps_its_name(judged: Judged) -> None:
    """A rule does not show in the names of results."""
    assert judged.engine.execute("SELECT log(2, 8)").read_all().column_names == ["log(Int64(2),Int64(8))"]


def test_a_power_is_none_of_bits_where_it_does_not_fit(judged: Judged) -> None:
    with pytest.raises(InvalidInputError, match=r"lcm\(Float64, Int64\)"):
        judged.engine.execute("SELECT lcm(id ^ 2, 7) FROM t").read_all()
