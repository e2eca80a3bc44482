"""Small generations are read in one scan, and give what each of them gives alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.execnodes.rows.row_mask import EVERYTHING_VISIBLE
from lance_gateway.execnodes.storage.data_files import Place
from lance_gateway.execnodes.storage.source import ColumnMapping, LanceSource, StoredColumn
from lance_gateway.planner.tables.sources import read_together
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.sources.read_together import FEWEST, Fragment, TogetherReader


def write(path: Path, rows: pa.Table, **options: Any) -> LanceSource:
    dataset = lance.write_dataset(rows, path, **options)
    stored = {field.name: StoredColumn(field.name, field.type) for field in rows.schema}
    return LanceSource(path.name, dataset, rows.schema, ColumnMapping(stored), Place.new(str(path)))


def make_rows(number: int, rows: int = 5) -> pa.Table:
    ids = np.arange(rows) + 10 * number
    return pa.table(
        {"id": ids, "text": [f"ä{one}" if one % 3 else None for one in ids], "pair": [[1, 2]] * rows}
    )


def list_fragments(*sources: LanceSource) -> list[Fragment]:
    return [(source, fragment) for source in sources for fragment in source.fragments.all]


def read(fragments: list[Fragment], columns: list[str]) -> dict[str, pa.Table]:
    return {
        f"{source.label}/{one.fragment_id}": pa.table(list(rows), names=columns)
        for (source, one), rows in TogetherReader().read(fragments, columns)
    }


@pytest.fixture
def sources(tmp_path: Path) -> list[LanceSource]:
    return [
        write(tmp_path / f"d{number}", make_rows(number), max_rows_per_file=3) for number in range(FEWEST)
    ]


def test_each_fragment_has_its_own_rows(sources: list[LanceSource]) -> None:
    found = read(list_fragments(*sources), ["text", "id", "pair"])
    assert list(found) == [f"d{number}/{fragment}" for number in range(FEWEST) for fragment in (0, 1)]
    for number in range(FEWEST):
        rows = pa.concat_tables([found[f"d{number}/0"], found[f"d{number}/1"]])
        assert rows.to_pydict() == make_rows(number).select(["text", "id", "pair"]).to_pydict()


def test_deleted_rows_are_read_as_well(sources: list[LanceSource]) -> None:
    dataset: Any = sources[1].dataset
    dataset.delete("id = 11")
    stored = dict(sources[1].stored)
    deleted = LanceSource(
        "deleted", lance.dataset(dataset.uri), sources[1].schema, ColumnMapping(stored), sources[1].place
    )
    found = read(list_fragments(sources[0], deleted, *sources[2:]), ["id"])
    assert found["deleted/0"].column("id").to_pylist() == [10, 11, 12]


def test_few_fragments_are_left_to_be_read_one_by_one(tmp_path: Path) -> None:
    sources = [write(tmp_path / f"d{number}", make_rows(number)) for number in range(FEWEST - 1)]
    assert read(list_fragments(*sources), ["id"]) == {}


def test_large_fragments_are_left_out(sources: list[LanceSource], monkeypatch: pytest.MonkeyPatch) -> None:
    size = max(one.files.files[0].size or 0 for _, one in list_fragments(*sources))
    monkeypatch.setattr(read_together, "LARGEST_BYTES", size - 1)
    found = read(list_fragments(*sources), ["id"])
    assert 0 < len(found) < 2 * FEWEST


def test_fragments_are_divided_among_scans_by_their_bytes(
    sources: list[LanceSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    original = read_together._combine
    monkeypatch.setattr(read_together, "_combine", lambda part: asked.append(len(part)) or original(part))
    fragments = list_fragments(*sources)
    size = sum(one.files.files[0].size or 0 for _, one in fragments)
    monkeypatch.setattr(read_together, "_SCAN_BYTES", size - 1)
    assert len(read(fragments, ["id"])) == sum(asked)
    assert asked == [7]
    monkeypatch.setattr(read_together, "FEWEST", 1)
    assert len(read(fragments, ["id"])) == len(fragments) == sum(asked[1:])
    assert asked == [7, 7, 1]


def test_datasets_of_other_columns_are_read_among_themselves(
    sources: list[LanceSource], tmp_path: Path
) -> None:
    others = [
        write(tmp_path / f"other{number}", pa.table({"x": [1.5], "id": pa.array([number])}))
        for number in range(FEWEST)
    ]
    alone = write(tmp_path / "alone", pa.table({"id": pa.array([7], pa.int32())}))
    found = read(list_fragments(others[0], *sources, alone, *others[1:]), ["id"])
    assert {
        name: rows.column("id").to_pylist() for name, rows in found.items() if name.startswith("other")
    } == {f"other{number}/0": [number] for number in range(FEWEST)}
    assert "alone/0" not in found
    assert len(found) == 3 * FEWEST


def test_where_a_file_is_gone_the_rest_is_left_to_be_read_one_by_one(sources: list[LanceSource]) -> None:
    fragments = list_fragments(*sources)
    source, fragment = fragments[4]
    dataset: Any = source.dataset
    (Path(dataset.uri) / "data" / fragment.files.files[0].path).unlink()
    assert set(read(fragments, ["id"])) <= {
        f"d{number}/{fragment}" for number in (0, 1) for fragment in (0, 1)
    }


def test_datasets_with_blobs_are_left_out(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([[1], [b"x"]], schema=pa.schema([pa.field("id", pa.int64()), blob]))
    sources = [write(tmp_path / f"d{number}", rows) for number in range(FEWEST)]
    assert read(list_fragments(*sources), ["id"]) == {}


class TestColumnsReadAhead:
    @pytest.fixture
    def small(self, tmp_path: Path) -> list[LanceSource]:
        return [write(tmp_path / f"d{number}", make_rows(number)) for number in range(FEWEST)]

    def test_they_are_found_without_another_scan(
        self, small: list[LanceSource], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        columns = DecodedColumns(1 << 20)
        columns.read_ahead(TogetherReader().read, small, ["id", "text"])
        monkeypatch.setattr(columns, "_decode_chunks", None)
        for number, source in enumerate(small):
            batches, left = columns.read(source, [0], ["id", "text"], EVERYTHING_VISIBLE)
            rows = pa.Table.from_batches(batches)
            assert rows.to_pydict() == make_rows(number).select(["id", "text"]).to_pydict()
            assert left == ()

    def test_what_was_read_before_is_not_read_again(self, small: list[LanceSource]) -> None:
        columns = DecodedColumns(1 << 20)
        asked: list[tuple[int, tuple[str, ...]]] = []

        def watched(fragments: Any, names: Any) -> Iterator[Any]:
            asked.append((len(list(fragments)), tuple(names)))
            return TogetherReader().read(fragments, names)

        columns.read_ahead(watched, small, ["id"])
        columns.read_ahead(watched, small, ["id"])
        columns.read_ahead(watched, small, ["text", "id"])
        assert asked == [(FEWEST, ("id",)), (FEWEST, ("text",))]
