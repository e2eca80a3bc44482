"""Rows are taken from columns that are kept, where these are narrow; else from Lance."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.execnodes.search.kept_columns import MAX_BYTES, PIECE_ROWS, READ_AFTER, take_kept_columns
from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.execnodes.search.take_rows import take_columns
from lance_gateway.execnodes.storage.source import ColumnMapping, LanceSource, StoredColumn
from lance_gateway.planner.tables.sources.caches import ByteCache

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("long", pa.string()),
        ("vec", pa.list_(pa.float32(), 2)),
        ("later", pa.float64()),
    ]
)
COUNT = 200
ID_COLUMN = StoredColumn("id", pa.int64())


def source(root: Path, *, region: str | None = "region") -> SearchSource:
    """A generation of 200 rows, every third of which a newer row of the same generation hides.

    `name` is stored under an older name, and `later` was added to the table after it was written.
    """
    columns = {
        "id": pa.array(range(COUNT), pa.int64()),
        "old name": [f"row {number}" for number in range(COUNT)],
        "amount": pa.array(map(Decimal, range(COUNT)), pa.decimal128(12, 2)),
        "long": ["x" * (MAX_BYTES // 100)] * COUNT,
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * COUNT, dtype="f4")), 2),
    }
    path = root / f"{region}.lance"
    lance.write_dataset(pa.table(columns), path)
    dataset = lance.dataset(path)
    dataset.delete("id % 3 = 0")
    stored = {
        field.name: StoredColumn("old name" if field.name == "name" else field.name, field.type)
        for field in SCHEMA
        if field.name != "later"
    }
    rows = LanceSource("generation", lance.dataset(path), SCHEMA, ColumnMapping(stored))
    return SearchSource(0, rows, ("generation", region), region_id=region)


@pytest.fixture
def keep() -> ByteCache:
    return ByteCache(1 << 24)


def fields(*names: str) -> list[pa.Field]:
    return [SCHEMA.field(name) for name in names]


ADDRESSES = np.array([199, 4, 100, 4, 1], dtype=np.uint64)


def test_narrow_columns_are_kept(tmp_path: Path, keep: ByteCache) -> None:
    asked = fields("id", "name", "amount", "later")
    searched = source(tmp_path)
    for _ in range(2):
        kept = take_kept_columns(searched, ADDRESSES, asked, keep)
        assert kept is not None
        ids, names, amounts, later = (column.to_pylist() for column in kept)
        assert ids == [199, 4, 100, 4, 1]
        assert names == [f"row {number}" for number in ids]
        assert [int(amount) for amount in amounts] == ids
        assert later == [None] * 5


@pytest.mark.parametrize("names", [("vec",), ("id", "vec"), ("long",), ("id", "long")])
def test_wide_columns_are_not(tmp_path: Path, keep: ByteCache, names: tuple[str, ...]) -> None:
    searched = source(tmp_path)
    assert take_kept_columns(searched, ADDRESSES, fields(*names), keep) is None
    taken: list[Any] = [
        column.to_pylist() for column in take_columns(searched, ADDRESSES, fields(*names), keep)
    ]
    assert len(taken) == len(names)
    if "vec" in names:
        assert taken[names.index("vec")] == [[2.0 * at, 2.0 * at + 1] for at in ADDRESSES.tolist()]
    assert keep.nbytes < MAX_BYTES


def test_a_large_fragment_is_asked_row_by_row_at_first(tmp_path: Path, keep: ByteCache) -> None:
    searched, asked = source(tmp_path, region=None), fields("id", "amount", "later")
    found = [take_kept_columns(searched, ADDRESSES, asked, keep) for _ in range(READ_AFTER)]
    assert found[:-1] == [None] * (READ_AFTER - 1)
    assert [column.to_pylist() for column in found[-1] or ()] == [
        ADDRESSES.tolist(),
        list(map(Decimal, ADDRESSES.tolist())),
        [None] * 5,
    ]
    assert take_kept_columns(searched, ADDRESSES, asked, keep, reads=False) == found[-1]


def test_texts_of_a_large_fragment_are_never_kept(tmp_path: Path, keep: ByteCache) -> None:
    searched = source(tmp_path, region=None)
    for _ in range(2 * READ_AFTER):
        assert take_kept_columns(searched, ADDRESSES, fields("id", "name"), keep) is None


def test_pieces_of_several_fragments_are_read_one_by_one(tmp_path: Path, keep: ByteCache) -> None:
    count = PIECE_ROWS + 100
    lance.write_dataset(
        pa.table({"id": pa.array(range(2 * count), pa.int64())}), tmp_path / "t", max_rows_per_file=count
    )
    lance.dataset(tmp_path / "t").delete("id in (0, 65540)")
    rows = LanceSource(
        "base", lance.dataset(tmp_path / "t"), pa.schema([("id", pa.int64())]), {"id": ID_COLUMN}
    )
    searched = SearchSource(0, rows, "base", fragments=(0, 1))
    asked = [count + 7, 65_541, 3, 2 * count - 1, 65_541]
    addresses = np.array([number // count << 32 | number % count for number in asked], dtype=np.uint64)
    found = [take_kept_columns(searched, addresses, fields("id"), keep) for _ in range(READ_AFTER + 4)]
    assert found[: READ_AFTER + 2] == [None] * (READ_AFTER + 2)
    for taken in found[READ_AFTER + 3 :]:
        assert taken is not None
        assert taken[0].to_pylist() == asked


def test_both_ways_give_the_same_rows(tmp_path: Path, keep: ByteCache) -> None:
    asked = fields("id", "name", "amount", "later")
    kept = take_columns(source(tmp_path), ADDRESSES, asked, keep)
    taken = take_columns(source(tmp_path, region=None), ADDRESSES, asked, keep)
    assert [one.to_pylist() for one in kept] == [one.to_pylist() for one in taken]
    assert [one.type for one in kept] == [one.type for one in taken] == [field.type for field in asked]


TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-1, 2, 3]),
    (pa.uint16(), [1, 2, 65_535]),
    (pa.float32(), [1.5, float("inf"), -0.0]),
    (pa.float64(), [1.5, None, 2.5]),
    (pa.bool_(), [True, False, True]),
    (pa.date32(), [date(2000, 1, 1), date(2026, 11, 28), None]),
    (pa.timestamp("us", "UTC"), [datetime(2000, 1, 1, tzinfo=UTC), datetime(2026, 11, 28, tzinfo=UTC), None]),
    (pa.duration("ns"), [1, 2, 3]),
    (pa.decimal128(20, 3), [Decimal("1.250"), Decimal("-7.000"), Decimal("0.001")]),
    (pa.string(), ["", "é", None]),
]


@pytest.mark.parametrize("region", ["region", None])
def test_values_of_all_narrow_types_are_kept_as_they_are(
    tmp_path: Path, keep: ByteCache, region: str | None
) -> None:
    kinds = TYPES if region else [one for one in TYPES if one[0] != pa.string()]
    schema = pa.schema([(f"c{number}", kind) for number, (kind, _) in enumerate(kinds)])
    rows = pa.table([pa.array(values, kind) for kind, values in kinds], schema=schema)
    dataset = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=2)
    stored = {field.name: StoredColumn(field.name, field.type) for field in schema}
    searched = SearchSource(0, LanceSource("t", dataset, schema, stored), "t", region_id=region)
    addresses = np.array([1 << 32, 0, 1, 1 << 32], dtype=np.uint64)
    found = [take_kept_columns(searched, addresses, list(schema), keep) for _ in range(READ_AFTER + 2)][-1]
    assert found is not None
    for column, taken in zip(rows.columns, found, strict=True):
        assert taken.equals(pa.concat_arrays(column.chunks).take([2, 0, 1, 2]))
        taken.validate(full=True)
