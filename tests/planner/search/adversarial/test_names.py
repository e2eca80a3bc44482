"""Values and columns that are named like parts of a plan change nothing in what a search finds."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.principals import create_principal
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

TABLE = "docs"
TITLES = (
    "docs.x",
    "docs#1.x",
    "x",
    'x") OR docs#1.title LIKE Utf8("y',
    "y",
    "TableScan: docs#1",
    "TableScan: docs#1 ",
    "Filter: TRUE",
    "LeftSemi Join",
    "random(",
    "CAST(1 / 0 AS INT)",
    "(<subquery>)",
    "a\nb",
    "a\n  TableScan: docs#1",
)
COLUMN = 'TableScan: docs#1"\nFilter: random(CAST('
DOCS = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("n", pa.int64()),
        pa.field("title", pa.string()),
        pa.field("tenant", pa.string()),
        pa.field(COLUMN, pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 4)),
    ]
)
QUERY = [0.4, 0.1, -0.3, 0.8]
SEARCH = f"lance_vector_search('{TABLE}', 'vec', {QUERY}, k => 5)"
QUOTED = '"' + COLUMN.replace('"', '""') + '"'
RESTRICTED = create_principal(docs=TableAccess(row_filter="tenant <> 'b' AND right(title, 6) <> 'hidden'"))

Row = dict[str, Any]
Condition = Callable[[Row], bool]


def rows_of_docs() -> list[Row]:
    source = np.random.default_rng(12)
    return [
        {
            "id": number,
            "n": number % 5,
            "title": TITLES[number % len(TITLES)],
            "tenant": "aab"[number % 3],
            COLUMN: TITLES[number * 5 % len(TITLES)],
            "vec": source.normal(size=4).astype("f4").tolist(),
        }
        for number in range(130)
    ]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return rows_of_docs()


@pytest.fixture(scope="module")
def root(
    tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess, rows: list[Row]
) -> Iterator[Path]:
    """Base, a generation and the log; older versions of rows have other titles and are nearer."""
    root = tmp_path_factory.mktemp("names")
    stale = [row | {"title": "x", COLUMN: "x", "vec": QUERY} for row in rows[:100:2]]
    base = pa.Table.from_pylist([*stale, *rows[1:100:2]], schema=DOCS)
    table = LsmTable.create(root, TABLE, base, bucketed("id", 2, recorded=True), shared_writers)
    table.put(rows[:60:2])
    table.close_writers()
    table.put([*rows[60:100:2], *rows[100:]])
    lance.dataset(table.path).create_scalar_index("n", "BTREE")
    return root


@pytest.fixture
def engine(root: Path) -> Iterator[QueryEngine]:
    """With nothing kept of what other tests found."""
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


@pytest.fixture(params=[FULL_ACCESS, RESTRICTED], ids=["all", "restricted"])
def access(request: pytest.FixtureRequest) -> Access:
    return request.param


def sees(access: Access) -> Condition:
    return lambda row: access is FULL_ACCESS or row["tenant"] != "b"


def nearest(rows: list[Row], condition: Condition, k: int = 5) -> list[int]:
    admitted = [row for row in rows if condition(row)]
    admitted.sort(key=lambda row: float(np.sum((np.array(row["vec"]) - QUERY) ** 2)))
    return [row["id"] for row in admitted[:k]]


def ids(engine: QueryEngine, sql: str, access: Access = FULL_ACCESS) -> list[int]:
    found: list[int] = engine.prepare(sql, access=access).execute().read_all()["id"].to_pylist()
    return found


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def like(value: str) -> str:
    """A pattern that Arrow can't say, fulfilled by what begins with a value."""
    return text(value + "%")


CONDITIONS: dict[str, tuple[str, Condition]] = {
    **{
        f"{column[:9]} like {value}": (
            f"{quoted} LIKE {like(value)}",
            lambda row, column=column, value=value: row[column].startswith(value),
        )
        for (column, quoted), value in itertools.product([("title", "title"), (COLUMN, QUOTED)], TITLES)
    },
    "either": (
        "title LIKE 'x%' OR title LIKE 'y%'",
        lambda row: row["title"].startswith(("x", "y")),
    ),
    "what either looks like": (
        "title LIKE " + text('x%") OR docs#1.title LIKE Utf8("y%'),
        lambda row: row["title"].startswith('x") OR docs#1.title LIKE Utf8("y'),
    ),
    "both": (
        f"concat({QUOTED}, title) LIKE '%(%y'",
        lambda row: row["title"].endswith("y") and "(" in row[COLUMN] + row["title"],
    ),
}


@pytest.mark.slow
def test_conditions_are_told_apart(engine: QueryEngine, rows: list[Row], access: Access):
    """One engine answers all, one after another: what it keeps of one must not answer for another."""
    visible = sees(access)
    wrong = {}
    for title, (sql, condition) in CONDITIONS.items():
        found = ids(engine, f"SELECT id FROM {SEARCH} WHERE {sql} ORDER BY _distance", access)
        expected = nearest(rows, lambda row: visible(row) and condition(row))  # noqa: B023 - called here
        if found != expected:
            wrong[title] = found, expected
    assert not wrong


def test_filters_of_a_subquery_are_found_whatever_stands_in_them(
    engine: QueryEngine, rows: list[Row], access: Access
):
    """A line break in a value must not hide the condition that it stands in."""
    visible = sees(access)
    sql = f"SELECT id FROM docs WHERE id = (SELECT max(id) FROM {SEARCH} WHERE title LIKE 'a\n%')"
    expected = max(nearest(rows, lambda row: visible(row) and row["title"].startswith("a\n")))
    assert ids(engine, sql, access) == [expected]


@pytest.mark.slow
@pytest.mark.parametrize("value", TITLES)
def test_names_of_nodes_in_values_refuse_nothing(engine: QueryEngine, rows: list[Row], value: str):
    sql = f"""
        SELECT id, (SELECT max(n) FROM docs WHERE title LIKE {like(value)} OR {QUOTED} = {text(value)}) AS m
        FROM (SELECT * FROM {SEARCH} WHERE upper(title) <> {text(value.upper())}) s ORDER BY _distance
    """
    assert ids(engine, sql) == nearest(rows, lambda row: row["title"].upper() != value.upper())


@pytest.mark.slow
@pytest.mark.parametrize("value", TITLES)
def test_the_nearest_rows_are_searched_whatever_the_values(engine: QueryEngine, rows: list[Row], value: str):
    sql = f"SELECT id FROM docs WHERE title LIKE {like(value)} ORDER BY vec <-> {QUERY} LIMIT 5"
    assert ids(engine, sql) == nearest(rows, lambda row: row["title"].startswith(value))
    explained = engine.execute(f"EXPLAIN {sql}").read_all()["plan"].to_pylist()[-1]
    assert "KnnExec" in explained


def test_a_table_that_a_subquery_reads_too_is_read_whole(engine: QueryEngine, rows: list[Row]):
    """One name stands for both reads of the common table expression."""
    sql = f"""
        WITH c AS (SELECT * FROM docs)
        SELECT id FROM c WHERE n + 1 < (SELECT count(*) FROM c) ORDER BY vec <-> {QUERY} LIMIT 5
    """
    assert ids(engine, sql) == nearest(rows, lambda _: True)
    sql = f"""
        WITH c AS (SELECT * FROM docs)
        SELECT id, (SELECT count(*) FROM c) AS every FROM c ORDER BY vec <-> {QUERY} LIMIT 5
    """
    found = engine.execute(sql).read_all()
    assert found["id"].to_pylist() == nearest(rows, lambda _: True)
    assert set(found["every"].to_pylist()) == {len(rows)}


def test_chance_is_found_behind_a_name(engine: QueryEngine):
    sql = f"SELECT id FROM (SELECT *, n + random() AS r FROM {SEARCH}) WHERE r + n < 5"
    with pytest.raises(UnsupportedError, match="can't apply before ranking: write prefilter => false"):
        engine.execute(sql).read_all()


WINDOWED = "sum(n) OVER (ORDER BY (SELECT count(*) FROM c))"
FILTERED = "sum(n) FILTER (WHERE n < (SELECT count(*) FROM c))"


@pytest.mark.parametrize("value", [WINDOWED, FILTERED])
def test_reads_that_no_node_shows_are_counted_as_well(engine: QueryEngine, rows: list[Row], value: str):
    sql = f"""
        WITH c AS (SELECT * FROM docs)
        SELECT (SELECT {value} FROM docs LIMIT 1) AS total, id FROM c ORDER BY vec <-> {QUERY} LIMIT 5
    """
    found = engine.execute(sql).read_all()
    assert found["id"].to_pylist() == nearest(rows, lambda _: True)
    assert set(found["total"].to_pylist()) == {sum(row["n"] for row in rows)}


@pytest.mark.slow
def test_a_search_in_a_subquery_that_stands_for_a_value_meets_its_conditions_first(
    engine: QueryEngine, rows: list[Row], access: Access
):
    visible = sees(access)
    inner = f"SELECT max(id) FROM {SEARCH} s WHERE n + 1 = 3"
    expected = max(nearest(rows, lambda row: visible(row) and row["n"] == 2))
    for sql in (
        f"SELECT id FROM docs WHERE id = ({inner})",
        f"SELECT id FROM docs WHERE n < 5 ORDER BY abs(id - ({inner})) LIMIT 1",
        f"SELECT id FROM docs d JOIN (SELECT 1 AS one) o ON d.id = ({inner}) * o.one",
        f"SELECT ({inner}) AS id",
        f"SELECT ({inner}) + count(*) - count(*) AS id FROM docs",
        f"SELECT id FROM docs WHERE id = (SELECT max(id) FROM docs WHERE id <= ({inner}))"
        if access is FULL_ACCESS
        else f"SELECT ({inner}) AS id",
    ):
        assert ids(engine, sql, access) == [expected], sql


@pytest.mark.parametrize(
    "condition",
    [
        "n > (SELECT min(n) FROM docs)",
        "n + 1 > (SELECT min(n) FROM docs) AND n > (SELECT min(n) - 1 FROM docs)",
        "title LIKE '%' AND n > (SELECT min(n) FROM docs WHERE title LIKE '%')",
        "id IN (SELECT id FROM docs WHERE n = 2)",
        "random() < 2",
    ],
)
def test_what_can_not_apply_first_is_refused_in_subqueries_as_well(engine: QueryEngine, condition: str):
    inner = f"SELECT max(id) FROM {SEARCH} s WHERE {condition}"
    for sql in (
        f"SELECT id FROM docs WHERE id = ({inner})",
        f"SELECT id FROM docs ORDER BY id + ({inner}) LIMIT 1",
        f"SELECT ({inner}) AS id",
        f"SELECT id FROM docs WHERE id = (SELECT max(id) FROM docs WHERE id <= ({inner}))",
    ):
        with pytest.raises(UnsupportedError, match="can't apply before ranking: write prefilter => false"):
            engine.execute(sql).read_all()


@pytest.mark.parametrize("value", [WINDOWED, FILTERED])
def test_a_search_in_a_window_or_filter_applies_its_conditions(engine: QueryEngine, value: str):
    kept = f"SELECT * FROM {SEARCH} s WHERE title LIKE '%'"
    count = engine.execute(f"SELECT count(*) AS c FROM ({kept})").read_all()["c"][0].as_py()
    constant = value.replace("(SELECT count(*) FROM c)", str(count))
    assert constant != value
    found = engine.execute(f"WITH c AS ({kept}) SELECT {value} AS id FROM docs").read_all()
    expected = engine.execute(f"SELECT {constant} AS id FROM docs").read_all()
    assert found["id"].to_pylist() == expected["id"].to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize(
    "explain", ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE", "EXPLAIN ANALYZE VERBOSE"]
)
def test_a_search_with_conditions_is_explained(engine: QueryEngine, explain: str):
    sql = f"""
        WITH s AS (SELECT * FROM {SEARCH} WHERE title LIKE 'x%')
        SELECT a.id, (SELECT max(id) FROM s) AS most FROM s a JOIN s b ON a.id = b.id
    """
    assert engine.execute(f"{explain} {sql}").read_all().num_rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("n >= 3 AND factorial(n - 3) = 1", lambda row: row["n"] >= 3),
        ("n > 0 AND chr(n * 7) <> ''", lambda row: row["n"] > 0),
        (
            "n < 3 AND substr(title, 1, 2 - n) LIKE 'x%'",
            lambda row: row["n"] < 3 and row["title"][: 2 - row["n"]].startswith("x"),
        ),
    ],
)
def test_a_function_that_fails_for_other_rows_is_guarded(
    engine: QueryEngine, rows: list[Row], access: Access, sql: str, condition: Condition
):
    visible = sees(access)
    found = ids(engine, f"SELECT id FROM {SEARCH} WHERE {sql} ORDER BY _distance", access)
    assert found == nearest(rows, lambda row: visible(row) and condition(row))
