"""Tables whose columns changed since generations were flushed: the base table gets what readers see."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.columns.stored_fields import StoredField
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.merging.generations import Reader
from tests.support.lake.merged import MergedTable
from tests.support.lake.tables import key_field, unpartitioned
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.writer_process import WriterProcess

POINT = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])
SCHEMA = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("v", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("point", POINT),
        pa.field("points", pa.list_(pa.field("item", POINT))),
        pa.field("vector", pa.list_(pa.float32(), 2)),
    ]
)


def row(key: int) -> dict[str, object]:
    point = {"x": key, "y": f"y{key}"}
    return {
        "id": key,
        "v": f"v{key}",
        "n": key,
        "point": point,
        "points": [point, None],
        "vector": [0.5, float(key)],
    }


@pytest.fixture
def kept(root: Path, writers: WriterProcess) -> MergedTable:
    kept = MergedTable.create(
        root, writers, unpartitioned(("id",), 1), SCHEMA, [row(one) for one in range(4)]
    )
    kept.put(row(2), row(50), {"id": 51, **dict.fromkeys(SCHEMA.names[1:])})
    kept.delete({"id": 1})
    kept.flush()
    return kept


def rename(base: lance.LanceDataset) -> None:
    base.alter_columns({"path": "v", "name": "w"})


def swap_names(base: lance.LanceDataset) -> None:
    base.add_columns(pa.schema([pa.field("v2", pa.string())]))
    base.alter_columns({"path": "v", "name": "old"})
    base.alter_columns({"path": "v2", "name": "v"})


def drop(base: lance.LanceDataset) -> None:
    base.drop_columns(["n", "vector"])


def drop_and_add_again(base: lance.LanceDataset) -> None:
    base.drop_columns(["n"])
    base.add_columns(pa.schema([pa.field("n", pa.string())]))


def rename_a_child(base: lance.LanceDataset) -> None:
    base.alter_columns({"path": "point.y", "name": "z"})


def drop_a_child(base: lance.LanceDataset) -> None:
    base.drop_columns(["point.x"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [rename, swap_names, drop, drop_and_add_again, rename_a_child, drop_a_child]
)
def test_readers_see_the_same_before_and_after(
    root: Path, kept: MergedTable, change: Callable[[lance.LanceDataset], None]
):
    change(kept.base())
    gateway = EngineGateway(root)
    before = gateway.read("SELECT * FROM t ORDER BY id")
    merge(kept.lake_table)
    base = kept.base().to_table().sort_by("id")
    assert base.to_pylist() == before.to_pylist()
    assert gateway.read("SELECT * FROM t ORDER BY id") == before
    assert base["id"].to_pylist() == [0, 2, 3, 50, 51]
    gateway.close()


def test_generations_from_before_and_after_a_change_are_merged_together(kept: MergedTable):
    kept.base().alter_columns({"path": "v", "name": "w"})
    kept.base().drop_columns(["points", "vector", "point"])
    kept.base().add_columns(pa.schema([pa.field("more", pa.int32())]))
    kept.rows = {
        key: {"id": one["id"], "w": one["v"], "n": one["n"], "more": None} for key, one in kept.rows.items()
    }
    kept.put({"id": 2, "w": "w2", "n": 7, "more": 8})
    kept.flush()
    merge(kept.lake_table)
    kept.check()


def test_rows_that_are_older_than_a_column_get_its_initial_value(root: Path, kept: MergedTable):
    gateway = EngineGateway(root)
    gateway.write(
        "ALTER TABLE t ADD COLUMN d DECIMAL(9, 2) NOT NULL DEFAULT 1.5, ADD COLUMN l INT[] DEFAULT [3]"
    )
    before = gateway.read("SELECT id, d, l FROM t ORDER BY id")
    assert set(before["d"].to_pylist()) == {Decimal("1.50")}
    merge(kept.lake_table)
    assert kept.base().to_table(["id", "d", "l"]).sort_by("id").to_pylist() == before.to_pylist()
    assert before["l"].to_pylist() == [[3]] * 5
    gateway.close()


def test_values_that_don_t_fit_the_column_are_told_of(kept: MergedTable):
    """Lance changes no types of tables with MemWAL, but others may write generations too."""
    reader = Reader.of(kept.lake_table, kept.base())
    (number,) = [field for field in reader.fields if field.name == "n"]
    stored = StoredField(number.field_id, "n", pa.int64(), ())
    rows = pa.RecordBatch.from_pydict({"n": pa.array([1, 2**40])})
    with pytest.raises(InvalidInputError, match="column 'n' was flushed as int64 and is now int32"):
        reader._column(rows, number, stored)
    assert reader._column(rows.slice(0, 1), number, stored).type == pa.int32()
