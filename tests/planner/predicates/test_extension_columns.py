"""Conditions on columns of Arrow's extension types compare what is stored."""

import uuid
from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

TEXTS = ['{"a":1}', '{"a":"x","b":[1,2]}', None]
UUIDS = [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes, None]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    """A table with a column of JSON and one of UUIDs, as pylance writes them."""
    root = tmp_path_factory.mktemp("extensions")
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(TEXTS)),
            "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array(UUIDS, pa.binary(16))),
        }
    )
    lance.write_dataset(rows, root / "t.lance")
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("""j = '{"a":1}'""", [1]),
        ("""'{"a":1}' = j""", [1]),
        ("""j <> '{"a":1}'""", [2]),
        ("""CAST(j AS TEXT) = '{"a":1}'""", [1]),
        ("""j IN ('{"a":1}', 'x')""", [1]),
        ("""j NOT IN ('{"a":1}', 'x') AND id > 0""", [2]),
        ("""(j = '{"a":1}') IS NULL""", [3]),
        ("j BETWEEN '{' AND '{z'", [1, 2]),
        ("j LIKE '%x%' OR j IS NULL", [2, 3]),
        ("u = X'00000000000000000000000000000002'", [2]),
        ("u <> X'00000000000000000000000000000002'", [1]),
        ("u IN (X'00000000000000000000000000000001', X'00')", [1]),
    ],
)
def test_conditions_compare_what_is_stored(engine: QueryEngine, condition: str, ids: list[int]) -> None:
    found = engine.execute(f"SELECT id FROM t WHERE {condition} ORDER BY id").read_all()
    assert found.column("id").to_pylist() == ids
