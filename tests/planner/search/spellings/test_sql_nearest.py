"""ORDER BY distance LIMIT k: planned as a search where the plan allows it, and always the same answer."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.search import nearest_leaf
from lance_gateway.planner.search.nearest import MAX_ROWS
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.titled import Case, read_titled
from tests.support.judging.principals import create_principal
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

ITEMS = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("n", pa.int32()),
        pa.field("s", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 4)),
    ]
)
QUERY = [0.3, -0.2, 0.9, 0.1]
V = "'[0.3, -0.2, 0.9, 0.1]'"
BOUND = [pa.scalar(QUERY, pa.list_(pa.float32()))]

SEARCHED = {
    "function": f"SELECT id FROM items ORDER BY l2_distance(vec, {QUERY}) LIMIT 5",
    "operator": f"SELECT id FROM items ORDER BY vec <-> {V} LIMIT 5",
    "vector first": f"SELECT id FROM items ORDER BY {V} <-> vec LIMIT 5",
    "alias": f"SELECT id, vec <-> {V} AS d FROM items ORDER BY d LIMIT 5",
    "offset": f"SELECT id FROM items ORDER BY vec <-> {V} LIMIT 5 OFFSET 3",
    "DuckDB's name": f"SELECT id FROM items ORDER BY array_distance(vec, {QUERY}::FLOAT[4]) LIMIT 5",
    "cosine": f"SELECT id FROM items ORDER BY vec <=> {V} LIMIT 5",
    "similarity": f"SELECT id, 1 - (vec <=> {V}) AS s FROM items ORDER BY s DESC NULLS LAST LIMIT 5",
    "cosine_similarity": (
        f"SELECT id FROM items ORDER BY cosine_similarity(vec, {V}) DESC NULLS LAST LIMIT 5"
    ),
    "negative product": f"SELECT id FROM items ORDER BY vec <#> {V} LIMIT 5",
    "product": f"SELECT id FROM items WHERE id <> 3 ORDER BY inner_product(vec, {V}) DESC NULLS LAST LIMIT 5",
    "shifted": f"SELECT id FROM items ORDER BY 1 - 2 * (vec <-> {V}) DESC NULLS LAST LIMIT 5",
    "pushed condition": f"SELECT id FROM items WHERE n = 2 AND id > 7 ORDER BY vec <-> {V} LIMIT 5",
    "condition of DataFusion's": (
        f"SELECT id FROM items WHERE s LIKE '%a' AND n + 1 = 3 ORDER BY vec <-> {V} LIMIT 5"
    ),
    "a condition that guards another": (
        f"SELECT id FROM items WHERE n > 0 AND 12 / n > 4 ORDER BY vec <-> {V} LIMIT 5"
    ),
    "bound": f"SELECT id FROM items WHERE vec <-> {V} < 0.9 ORDER BY vec <-> {V} LIMIT 5",
    "a lower bound": f"SELECT id FROM items WHERE vec <-> {V} > 1 ORDER BY vec <-> {V} LIMIT 5",
    "bound of the similarity": (
        f"SELECT id, 1 - (vec <=> {V}) AS s FROM items WHERE 1 - (vec <=> {V}) > 0.6 ORDER BY s DESC LIMIT 5"
    ),
    "common table": (
        "WITH c AS (SELECT id, vec AS v, n FROM items WHERE n < 4) "
        f"SELECT id FROM c WHERE n > 1 ORDER BY v <-> {V} LIMIT 5"
    ),
    "subquery": f"SELECT id FROM (SELECT * FROM items ORDER BY vec <-> {V} LIMIT 9) WHERE n > 1 ORDER BY id",
    "counted": f"SELECT count(*) FROM (SELECT 1 FROM items ORDER BY vec <-> {V} LIMIT 5)",
    "joined": (
        f"SELECT a.id, b.n FROM (SELECT id FROM items ORDER BY vec <-> {V} LIMIT 5) a "
        "JOIN items b ON a.id = b.id ORDER BY a.id"
    ),
    "two searches": (
        f"SELECT * FROM ((SELECT id FROM items ORDER BY vec <-> {V} LIMIT 2) "
        f"UNION ALL (SELECT id FROM items ORDER BY vec <=> {V} LIMIT 2)) ORDER BY id"
    ),
    "fewer rows than the limit": f"SELECT id FROM items WHERE n = 3 AND id < 20 ORDER BY vec <-> {V} LIMIT 9",
    "more rows than vectors": f"SELECT id FROM items WHERE id < 9 ORDER BY vec <-> {V} LIMIT 999",
    "computed beside": f"SELECT id * 2 AS twice, upper(s) FROM items ORDER BY vec <-> {V} LIMIT 5",
}
EXACT = {
    "farthest": f"SELECT id FROM items ORDER BY vec <-> {V} DESC NULLS LAST LIMIT 5",
    "least product": f"SELECT id FROM items ORDER BY inner_product(vec, {V}) LIMIT 5",
    "NULLs first": f"SELECT n FROM items ORDER BY vec <-> {V} NULLS FIRST LIMIT 5",
    "NULLs are the most similar": f"SELECT id FROM items ORDER BY inner_product(vec, {V}) DESC LIMIT 3",
    "several keys": f"SELECT id FROM items ORDER BY vec <-> {V}, id LIMIT 5",
    "another expression": f"SELECT id FROM items ORDER BY abs((vec <-> {V}) - 0.5) LIMIT 5",
    "no limit": f"SELECT id FROM items WHERE id < 9 AND n > 0 ORDER BY vec <-> {V}",
    "no such metric": f"SELECT id FROM items ORDER BY vec <+> {V} LIMIT 5",
    "between columns": "SELECT id FROM items WHERE id <> 3 ORDER BY vec <-> vec, id LIMIT 5",
    "joined before": (
        f"SELECT a.id FROM items a JOIN items b ON a.id = b.id WHERE b.n = 1 ORDER BY a.vec <-> {V} LIMIT 5"
    ),
    "aggregated before": f"SELECT n, min(vec <-> {V}) AS d FROM items GROUP BY n ORDER BY d LIMIT 2",
    "window": f"SELECT id, row_number() OVER (ORDER BY id) FROM items ORDER BY vec <-> {V} LIMIT 5",
    "subquery as a condition": (
        f"SELECT id FROM items WHERE id IN (SELECT id FROM items WHERE n = 2) ORDER BY vec <-> {V} LIMIT 5"
    ),
    "read twice": (
        f"WITH c AS (SELECT * FROM items) SELECT * FROM (SELECT id FROM c ORDER BY vec <-> {V} LIMIT 2) x "
        "CROSS JOIN (SELECT max(n) FROM c) ORDER BY x.id"
    ),
    "too many": f"SELECT id FROM items ORDER BY vec <-> {V} LIMIT {MAX_ROWS + 1}",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables are."""
    return tmp_path_factory.mktemp("nearest")


@pytest.fixture(scope="module")
def regions(root: Path, shared_writers: WriterProcess) -> dict[str, str]:
    """Rows 0 to 59 in two regions: base, generation and log; row 3 has no vector, row 4 is deleted.

    Returns a readable name for each region.
    """
    source = np.random.default_rng(4)

    def rows(numbers: range) -> list[dict[str, object]]:
        return [
            {
                "id": number,
                "n": number % 5,
                "s": "ab"[number % 2] * 2,
                "vec": None if number == 3 else source.normal(size=4).astype("f4").tolist(),
            }
            for number in numbers
        ]

    base = pa.Table.from_pylist(rows(range(50)), schema=ITEMS)
    table = LsmTable.create(root, "items", base, bucketed("id", 2, recorded=True), shared_writers)
    table.put(rows(range(20, 35)))
    table.delete([{"id": 4}])
    table.close_writers()
    table.put(rows(range(30, 60)))
    lance.write_dataset(base.slice(5, 20), root / "plain.lance")
    return {region[:8]: f"bucket-{value}" for (value,), region in table.regions.items()}


@pytest.fixture(scope="module")
def engine(root: Path, regions: dict[str, str]) -> Iterator[QueryEngine]:  # noqa: ARG001 - the tables
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


def rows_of(engine: QueryEngine, sql: str, parameters: list[pa.Scalar] = ()) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = engine.execute(sql, parameters=parameters).read_all().to_pylist()
    return rows


def is_searched(engine: QueryEngine, sql: str) -> bool:
    return "KnnExec" in engine.execute(f"EXPLAIN {sql}").read_all()["plan"].to_pylist()[-1]


def exact_rows_of(engine: QueryEngine, sql: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The answer where nothing is recognised."""
    nothing: Mapping[str, object] = {}
    with monkeypatch.context() as patched:
        patched.setattr(nearest_leaf, "find_nearest", lambda _: nothing)
        return rows_of(engine, f"{sql} -- another statement to those who keep plans")


@pytest.mark.slow
@pytest.mark.parametrize("sql", [pytest.param(sql, id=title) for title, sql in SEARCHED.items()])
def test_a_search_answers_as_the_exact_plan_does(
    engine: QueryEngine, sql: str, monkeypatch: pytest.MonkeyPatch
):
    found = rows_of(engine, sql)
    assert found == exact_rows_of(engine, sql, monkeypatch)
    assert found
    assert is_searched(engine, sql)


@pytest.mark.parametrize("sql", [pytest.param(sql, id=title) for title, sql in EXACT.items()])
def test_what_is_no_search_reads_all_rows(engine: QueryEngine, sql: str, monkeypatch: pytest.MonkeyPatch):
    found = rows_of(engine, sql)
    assert found == exact_rows_of(engine, sql, monkeypatch)
    assert found
    assert not is_searched(engine, sql)


@pytest.mark.parametrize("vector", ["$1", "$1::vector", "$1::vector(4)"])
@pytest.mark.parametrize("bound", [pa.scalar(QUERY, pa.list_(pa.float32())), pa.scalar(str(QUERY))], ids=str)
def test_the_vector_may_be_a_parameter(engine: QueryEngine, vector: str, bound: pa.Scalar):
    expected = rows_of(engine, SEARCHED["operator"])
    found = rows_of(engine, f"SELECT id FROM items ORDER BY vec <-> {vector} LIMIT 5", [bound])
    assert found == expected


def test_the_limit_may_be_a_parameter(engine: QueryEngine):
    sql = "SELECT id FROM items ORDER BY l2_distance(vec, ?) LIMIT ?"
    query = engine.prepare(sql)
    assert query.parameter_schema.types == [pa.list_(pa.field("item", pa.float64())), pa.int64()]
    found = query.execute([*BOUND, pa.scalar(5)]).read_all().to_pylist()
    assert found == rows_of(engine, SEARCHED["operator"])


def test_a_table_without_rows_that_lack_vectors_needs_no_order_of_nulls(engine: QueryEngine):
    sql = f"SELECT id FROM plain ORDER BY inner_product(vec, {V}) DESC LIMIT 5"
    assert is_searched(engine, sql)
    assert rows_of(engine, sql) == rows_of(engine, sql.replace("LIMIT", "NULLS LAST LIMIT"))


def test_a_masked_vector_is_not_searched(engine: QueryEngine):
    access = create_principal(items=TableAccess(masks={"vec": "NULL"}))
    query = engine.prepare(f"EXPLAIN {SEARCHED['operator']}", access=access)
    assert "policy" in query.execute().read_all()["plan"].to_pylist()[-1]
    shown = engine.prepare(f"SELECT id, vec FROM items ORDER BY vec <-> {V}, id LIMIT 2", access=access)
    assert shown.execute().read_all().to_pylist() == [{"id": 0, "vec": None}, {"id": 1, "vec": None}]
    found = engine.prepare(SEARCHED["operator"], access=access).execute().read_all()
    assert found.num_rows == 5


def test_a_row_filter_applies_before_ranking(engine: QueryEngine):
    access = create_principal(items=TableAccess(row_filter="n = 2"))
    found = engine.prepare(SEARCHED["operator"], access=access).execute().read_all().to_pylist()
    assert found == rows_of(engine, f"SELECT id FROM items WHERE n = 2 ORDER BY vec <-> {V} LIMIT 5")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> QueryEngine:
    """2,000 rows with an index by the cosine."""
    root = tmp_path_factory.mktemp("indexed")
    vectors = np.random.default_rng(5).normal(size=(2000, 8)).astype("f4")
    column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8)
    dataset = lance.write_dataset(pa.table({"id": range(2000), "vec": column}), root / "items.lance")
    dataset.create_index("vec", "IVF_FLAT", metric="cosine", num_partitions=1, name="by_cosine")
    return QueryEngine(Catalog.open(str(root)))


@pytest.mark.parametrize(
    ("operator", "used"), [("<=>", "index=by_cosine"), ("<->", "flat, l2"), ("<#>", "flat, dot")]
)
def test_an_index_answers_its_own_metric_alone(indexed: QueryEngine, operator: str, used: str):
    sql = f"SELECT id FROM items ORDER BY vec {operator} [1, 2, 3, 4, 5, 6, 7, 8] LIMIT 10"
    assert used in indexed.execute(f"EXPLAIN {sql}").read_all()["plan"].to_pylist()[-1]
    assert rows_of(indexed, sql) == rows_of(indexed, sql.replace("LIMIT", ", id LIMIT"))


@pytest.mark.parametrize("case", read_titled("plans_nearest.txt"), ids=str)
def test_plan(case: Case, root: Path, regions: dict[str, str]):
    statement, expected = case.parts
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)  # its caches are cold
    plan = engine.execute(statement).read_all()["plan"].to_pylist()[-1]
    engine.close()
    for region, name in regions.items():
        plan = plan.replace(region, name)
    assert plan.strip() == expected


def test_too_few_rows_are_completed_from_the_whole_table(engine: QueryEngine):
    analyzed = "EXPLAIN ANALYZE SELECT id FROM plain WHERE id < {} ORDER BY vec <-> [1, 0, 0, 0] LIMIT 3"
    few, enough = (engine.execute(analyzed.format(end)).read_all()["plan"][0].as_py() for end in (7, 9))
    assert re.search("LanceScanExec: .*output_rows=2", few)
    assert re.search("LanceScanExec: .*not executed", enough)
