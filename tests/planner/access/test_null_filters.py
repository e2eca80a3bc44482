"""A row filter that is NULL hides its row, whatever DataFusion makes of the condition."""

from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import DEFAULT_SETTINGS, QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.principals import create_principal

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "i": [None, 5, 1],
        "s": [None, "abc", ""],
        "l": pa.array([None, [1], []], pa.list_(pa.int64())),
    }
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root = tmp_path_factory.mktemp("filters")
    lance.write_dataset(ROWS, root / "t.lance")
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


@pytest.mark.parametrize(
    ("row_filter", "seen"),
    [
        ("NOT (i IN (1) AND i IN (2))", [2, 3]),
        ("i NOT IN (1) OR i NOT IN (2)", [2, 3]),
        ("(i NOT IN (1)) OR (i NOT IN (2))", [2, 3]),
        ("NOT (i = 1 OR i = 2) OR NOT (i = 3 OR i = 4)", [2, 3]),
        ("(i IN (1) AND i IN (2)) IS NULL", [1]),
        ("NOT (s !~ '.*')", [2, 3]),
        ("(s ~ '.*') IS NULL", [1]),
        ("array_has_all(l, [])", [2, 3]),
        ("NOT array_has_any(l, [])", [2, 3]),
        ("i ^ 2 = 25", [2]),
        ("power(i, 0) = 1", [2, 3]),
    ],
)
def test_a_filter_that_is_null_hides_a_row(row_filter: str, seen: list[int], engine: QueryEngine) -> None:
    principal = create_principal(t=TableAccess(row_filter=row_filter))
    query = engine.prepare("SELECT id FROM t ORDER BY id", DEFAULT_SETTINGS, principal)
    assert query.execute().read_all()["id"].to_pylist() == seen


def test_a_mask_of_null(engine: QueryEngine) -> None:
    masks = {"s": "CASE WHEN i NOT IN (1) OR i NOT IN (2) THEN 'known' ELSE 'hidden' END"}
    principal = create_principal(t=TableAccess(masks=masks))
    query = engine.prepare("SELECT s FROM t ORDER BY id", DEFAULT_SETTINGS, principal)
    assert query.execute().read_all()["s"].to_pylist() == ["hidden", "known", "known"]
