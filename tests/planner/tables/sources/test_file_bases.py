"""Files of one name in several bases of a table are different files, and each row is read from its own."""

from pathlib import Path

import lance
import pytest

from lance_gateway.execnodes.storage.data_files import FragmentFiles, Place, list_bases
from lance_gateway.memwal.errors import CorruptDataError
from tests.planner.identity_tables import Open, check, index_texts, look_up_often, rows, with_bases
from tests.support.lake.hand_made import (
    create_base_path,
    make_table,
    read_rows,
    write_fragment,
)
from tests.support.lake.tables import LsmTable, unpartitioned
from tests.support.processes.writer_process import WriterProcess


@pytest.mark.slow
def test_a_table_lies_in_several_bases(root: Path, open_engine: Open) -> None:
    path = with_bases(root)
    index_texts(path)
    engine = open_engine(root)
    for _ in range(3):
        check(engine, "t", read_rows(path), text=True)
        look_up_often(engine, "t")
    elsewhere = open_engine(root)
    offer = engine.prepare("SELECT * FROM t").parts(3)
    assert offer is not None
    parts = [elsewhere.prepare("SELECT * FROM t").execute_part(part).read_all() for part in offer.parts]
    assert sorted(row["id"] for part in parts for row in part.to_pylist()) == [
        row["id"] for row in read_rows(path)
    ]
    for condition in ("id IN (2, 102, 203)", "id = 101"):
        lance.dataset(path).delete(condition)
        for _ in range(2):
            check(engine, "t", read_rows(path), text=True)


@pytest.mark.slow
def test_fresh_rows_supersede_those_of_their_base(
    root: Path, writers: WriterProcess, open_engine: Open
) -> None:
    path = with_bases(root)
    lance.dataset(path).initialize_mem_wal()
    table = LsmTable(path, ("id",), unpartitioned(("id",), 1), writers)
    expected = {row["id"]: row for row in read_rows(path)}
    engine = open_engine(root)
    check(engine, "t", list(expected.values()))
    for keys in ([1, 103], [204, 105, 300]):
        fresh = rows(keys, "fresh").to_pylist()
        table.put(fresh)
        expected |= {row["id"]: row for row in fresh}
        for _ in range(2):
            check(engine, "t", list(expected.values()))
        table.close_writers()  # flushes
        for _ in range(2):
            check(engine, "t", list(expected.values()))
    table.delete([{"id": 2}, {"id": 201}])
    del expected[2], expected[201]
    for _ in range(2):
        check(engine, "t", list(expected.values()))
    table.close_writers()
    check(engine, "t", list(expected.values()))


@pytest.mark.slow
def test_a_generation_lies_in_several_bases(root: Path, writers: WriterProcess, open_engine: Open) -> None:
    table = LsmTable.create(root, "t", rows(range(1, 9), "base"), unpartitioned(("id",), 1), writers)
    expected = {row["id"]: row for row in rows(range(1, 9), "base").to_pylist()}
    fresh = rows(range(2, 22), "fresh").to_pylist()
    table.put(fresh)
    (region,) = table.regions.values()
    table.close_writers()
    expected |= {row["id"]: row for row in fresh}
    _divide(table.generation_directory(region, 1), root)
    for _ in range(2):
        engine = open_engine(root)
        for _ in range(3):
            check(engine, "t", list(expected.values()))
        later = rows([3, 13, 40], "later").to_pylist()
        table.put(later)
        expected |= {row["id"]: row for row in later}
        check(engine, "t", list(expected.values()))
        table.close_writers()
        check(engine, "t", list(expected.values()))


def _divide(path: Path, root: Path) -> None:
    """Put the rows of a generation into two files of one name, in bases of their own, in the same order."""
    generation = lance.dataset(path)
    written = generation.to_table()
    stored = [one.metadata for one in generation.get_fragments()]
    ids = stored[0].files[0].fields
    generation.add_bases([create_base_path(root / "left", 1), create_base_path(root / "right", 2)])
    half = written.num_rows // 2
    parts = [
        write_fragment(root / "left", written.slice(0, half), base_id=1, ids=ids),
        write_fragment(root / "right", written.slice(half), base_id=2, ids=ids),
    ]
    lance.LanceDataset.commit(
        path,
        lance.LanceOperation.Update(removed_fragment_ids=[one.id for one in stored], new_fragments=parts),
        read_version=lance.dataset(path).version,
    )
    assert lance.dataset(path).to_table().num_rows == written.num_rows


def test_a_file_in_a_base_that_is_not_there_is_told(root: Path) -> None:
    path = root / "t.lance"
    dataset = make_table(path, rows(range(1, 9), "ants"))
    described = write_fragment(root / "lost", rows([1], "bees"), base_id=7)
    with pytest.raises(CorruptDataError, match="base 7"):
        FragmentFiles.of(described, Place.new(str(path)), list_bases(dataset))
