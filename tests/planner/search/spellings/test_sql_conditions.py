"""Conditions of a statement apply before ranking, whoever evaluates them; what can't is refused."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

ITEMS = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("n", pa.int32()),
        pa.field("Title de", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 4)),
    ]
)
QUERY = [0.4, 0.1, -0.3, 0.8]
SEARCH = f"lance_vector_search('items', 'vec', {QUERY}, k => 6)"
AFTER = SEARCH.replace(")", ", prefilter => false)")

Row = dict[str, Any]
CONDITIONS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "LIKE": ("""s."Title de" LIKE '%er'""", lambda row: row["Title de"].endswith("er")),
    "arithmetic": ("n + 1 = 3", lambda row: row["n"] == 2),
    "a function": ("abs(id - 30) < 15", lambda row: abs(row["id"] - 30) < 15),
    "CASE": ("CASE WHEN n > 2 THEN id ELSE -id END > 40", lambda row: row["n"] > 2 and row["id"] > 40),
    "a function used twice": (
        "abs(id - 30) BETWEEN 5 AND 20",
        lambda row: 5 <= abs(row["id"] - 30) <= 20,
    ),
    "beside one that is pushed": (
        """n > 1 AND upper("Title de") = 'ODER' AND id <> 7""",
        lambda row: row["n"] > 1 and row["Title de"] == "oder" and row["id"] != 7,
    ),
    "guarded against division by zero": (
        "n > 0 AND 12 / n >= 6",
        lambda row: row["n"] > 0 and 12 // row["n"] >= 6,
    ),
    "an element of the vector": ("vec[1] > 0", lambda row: row["vec"][0] > 0),
    "another distance": ("vec <-> [0, 0, 0, 0] < 1.5", lambda row: np.linalg.norm(row["vec"]) < 1.5),
    "OR": (
        """n = 1 OR "Title de" LIKE 'o%'""",
        lambda row: row["n"] == 1 or row["Title de"].startswith("o"),
    ),
    "with one on the distance": ("n % 2 = 1 AND _distance < 100", lambda row: row["n"] % 2 == 1),
    "nothing": ("n * 2 = 77", lambda _: False),
}


@pytest.fixture(scope="module")
def rows() -> dict[int, Row]:
    source = np.random.default_rng(6)
    return {
        number: {
            "id": number,
            "n": number % 5,
            "Title de": ("oder", "und", "aber")[number % 3],
            "vec": source.normal(size=4).astype("f4").tolist(),
        }
        for number in range(60)
    }


@pytest.fixture(scope="module")
def engine(
    tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess, rows: dict[int, Row]
) -> Iterator[QueryEngine]:
    """The base has other rows of all keys but the last ten; half of them moved in a generation or the log."""
    root: Path = tmp_path_factory.mktemp("conditions")
    stale = [
        row | ({"n": 99, "vec": QUERY} if number % 2 else {}) for number, row in rows.items() if number < 50
    ]
    table = LsmTable.create(
        root,
        "items",
        pa.Table.from_pylist(stale, schema=ITEMS),
        bucketed("id", 2, recorded=True),
        shared_writers,
    )
    table.put([row for number, row in rows.items() if number % 2 and number < 40])
    table.close_writers()
    table.put([row for number, row in rows.items() if number % 2 or number >= 50])
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


def nearest(rows: dict[int, Row], condition: Callable[[Row], bool], k: int = 6) -> list[int]:
    admitted = [row for row in rows.values() if condition(row)]
    return [
        row["id"]
        for row in sorted(admitted, key=lambda row: float(np.sum((np.array(row["vec"]) - QUERY) ** 2)))
    ][:k]


def ids(engine: QueryEngine, sql: str, *parameters: pa.Scalar) -> list[int]:
    found: list[int] = engine.execute(sql, parameters=parameters).read_all()["id"].to_pylist()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("title", CONDITIONS)
def test_k_rows_fulfil_the_condition(engine: QueryEngine, rows: dict[int, Row], title: str):
    sql, condition = CONDITIONS[title]
    found = ids(engine, f"SELECT id FROM {SEARCH} s WHERE {sql} ORDER BY _distance")
    assert found == nearest(rows, condition)


@pytest.mark.parametrize("title", CONDITIONS)
def test_afterwards_it_leaves_some_of_the_k(engine: QueryEngine, rows: dict[int, Row], title: str):
    sql, condition = CONDITIONS[title]
    found = ids(engine, f"SELECT id FROM {AFTER} s WHERE {sql} ORDER BY _distance")
    assert found == [one for one in nearest(rows, lambda _: True) if condition(rows[one])]


def test_values_may_be_bound(engine: QueryEngine, rows: dict[int, Row]):
    sql = f"""SELECT id FROM {SEARCH} WHERE "Title de" LIKE $1 AND n + $2 = 3 ORDER BY _distance"""
    found = ids(engine, sql, pa.scalar("%er"), pa.scalar(1))
    assert found == nearest(rows, lambda row: row["Title de"].endswith("er") and row["n"] == 2)


def test_conditions_reach_through_subqueries_and_renaming(engine: QueryEngine, rows: dict[int, Row]):
    sql = f"""
        WITH found AS (SELECT id, n * 2 AS twice, upper("Title de") AS title, _distance AS d FROM {SEARCH})
        SELECT id FROM (SELECT * FROM found WHERE twice < 6) WHERE title LIKE 'O%' ORDER BY d
    """
    expected = nearest(rows, lambda row: row["n"] < 3 and row["Title de"] == "oder")
    assert ids(engine, sql) == expected


def test_conditions_reach_through_joins(engine: QueryEngine, rows: dict[int, Row]):
    sql = f"""
        SELECT s.id FROM {SEARCH} s JOIN items i ON s.id = i.id
        WHERE s.n + 1 = 3 AND i."Title de" LIKE '%' ORDER BY _distance
    """
    assert ids(engine, sql) == nearest(rows, lambda row: row["n"] == 2)


def test_conditions_that_nobody_hands_over_reach_through_joins(engine: QueryEngine, rows: dict[int, Row]):
    wanted = [rows[number]["vec"] for number in (1, 4, 7, 9, 12)]
    listed = ", ".join(f"arrow_cast({vector}, 'FixedSizeList(4 x Float32)')" for vector in wanted)
    sql = f"""
        SELECT s.id FROM {SEARCH} s JOIN items i ON s.id = i.id
        WHERE s.vec IN ({listed}) AND s.n <> 4 ORDER BY s._distance
    """
    assert ids(engine, sql) == nearest(rows, lambda row: row["vec"] in wanted and row["n"] != 4)


def test_a_limit_stands_between(engine: QueryEngine, rows: dict[int, Row]):
    sql = f"SELECT id FROM (SELECT * FROM {SEARCH} LIMIT 6) WHERE n + 1 = 3 ORDER BY _distance"
    assert ids(engine, sql) == [one for one in nearest(rows, lambda _: True) if rows[one]["n"] == 2]


def test_each_of_two_searches_has_its_own_conditions(engine: QueryEngine, rows: dict[int, Row]):
    sql = f"""
        SELECT a.id FROM {SEARCH} a JOIN {SEARCH} b ON a.query IS NULL OR true
        WHERE a.n + 1 = 3 AND b.n + 1 = 4 GROUP BY a.id ORDER BY min(a._distance)
    """.replace("a.query IS NULL OR true", "a._distance >= 0")
    assert ids(engine, sql) == nearest(rows, lambda row: row["n"] == 2)


@pytest.mark.parametrize(
    "condition",
    [
        "random() < 2",
        "_distance < 1 OR n + 1 = 3",
        "_distance * n < 1",
        "id IN (SELECT id FROM items WHERE n = 2)",
        "id NOT IN (SELECT id FROM items WHERE n = 2)",
        "EXISTS (SELECT 1 FROM items i WHERE i.id = s.id AND i.n = 2)",
        "n > (SELECT min(n) FROM items)",
        "(SELECT max(n) FROM items i WHERE i.id = s.id) = 2",
        "n = 1 OR n < (SELECT max(n) FROM items i WHERE i.id = s.id)",
    ],
)
def test_what_can_not_apply_before_ranking_is_refused(engine: QueryEngine, condition: str):
    with pytest.raises(UnsupportedError, match="can't apply before ranking: write prefilter => false"):
        engine.execute(f"SELECT id FROM {SEARCH} s WHERE {condition}").read_all()
    assert len(ids(engine, f"SELECT id FROM {AFTER} s WHERE {condition}")) <= 6


@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ("s.id IN (SELECT id FROM items WHERE n = 2)", True),
        ("s.id NOT IN (SELECT id FROM items WHERE n = 2)", True),
        ("EXISTS (SELECT 1 FROM items j WHERE j.id = s.id AND j.n = 2)", True),
        ("i.id IN (SELECT id FROM items WHERE n = 2)", False),
        ("EXISTS (SELECT 1 FROM items j WHERE j.id = i.id AND j.n = 2)", False),
    ],
)
def test_subqueries_beside_joins_are_told_by_what_they_are_about(
    engine: QueryEngine, condition: str, refused: bool
):
    sql = f"SELECT s.id FROM {{}} s JOIN items i ON s.n = i.n WHERE {condition}"
    if refused:
        with pytest.raises(UnsupportedError, match="can't apply before ranking"):
            engine.execute(sql.format(SEARCH)).read_all()
    else:
        engine.execute(sql.format(SEARCH)).read_all()
    engine.execute(sql.format(AFTER)).read_all()


def test_a_condition_with_a_subquery_is_refused_in_one_that_stands_for_a_value(engine: QueryEngine):
    condition = "id IN (SELECT id FROM items WHERE n = 2)"
    sql = "SELECT id FROM items WHERE id = (SELECT max(id) FROM {} s WHERE {})"
    with pytest.raises(UnsupportedError, match="can't apply before ranking"):
        engine.execute(sql.format(SEARCH, condition)).read_all()
    engine.execute(sql.format(AFTER, condition)).read_all()


@pytest.mark.parametrize("condition", ["n = 2 AND _distance < 100", "n + 1 = 3"])
def test_conditions_apply_in_any_subquery(engine: QueryEngine, rows: dict[int, Row], condition: str):
    sql = f"SELECT id FROM items WHERE id = (SELECT max(id) FROM {SEARCH} s WHERE {condition})"
    assert ids(engine, sql) == [max(nearest(rows, lambda row: row["n"] == 2))]


def test_one_search_under_two_conditions_is_refused(engine: QueryEngine):
    sql = f"WITH s AS (SELECT * FROM {SEARCH}) SELECT a.id FROM s a JOIN s b ON a.id = b.id WHERE a.n + 1 = 3"
    with pytest.raises(UnsupportedError, match="read under different conditions"):
        engine.execute(sql)


def test_a_condition_that_fails_says_so(engine: QueryEngine):
    with pytest.raises(InvalidInputError, match=r"""CAST\(.*Title de.*can't be evaluated: .*oder"""):
        engine.execute(f"""SELECT id FROM {SEARCH} WHERE CAST("Title de" AS INT) = 1""").read_all()
