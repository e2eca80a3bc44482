"""Indexes that are built by the job: at once or in segments, they answer as if they had always been there."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.base import versions
from lance_gateway.memwal.base.index_details import read_index_details
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.pipeline.indexing import IndexPolicy, IndexSpec, build, maintain, needs
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import Threads
from tests.pipeline.indexed_table import IndexedTable, check_lance, rows
from tests.planner.search.sources.replayed import Ask
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

pytestmark = pytest.mark.slow

SCALAR = [("n", "BTREE"), ("n", "BITMAP"), ("n", "ZONEMAP"), ("n", "BLOOMFILTER"), ("txt", "NGRAM")]
VECTOR = ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"]


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def table(root: Path, writers: WriterProcess, request: pytest.FixtureRequest) -> IndexedTable:
    """Three fragments, one of them with deleted rows, and fresh rows besides; no index."""
    found = IndexedTable(root, writers, rows(range(400)), indexes=False, stable_row_ids=request.param)
    found.turn(range(300, 600), 1, deleted=range(20, 30))
    found.put(*rows(range(590, 620), 2))
    found.flush()
    found.put(*rows(range(610, 625), 2))
    return found


def spec(column: str, kind: str, **more: Any) -> IndexSpec:
    return IndexSpec(column, kind, f"{column}_index", segment_rows=100, **more)


def test_search_is_the_same_before_and_after(table: IndexedTable, ask: Ask):
    segments = []
    for column, kind, parameters in (
        ("n", "BTREE", {}),
        ("txt", "INVERTED", {"with_position": True}),
        ("vec", "IVF_FLAT", {"num_partitions": 2}),
    ):
        if len(segments) == 2:  # a search of words needs an index
            table.check(ask)
        segments.append(build(table.lake_table, spec(column, kind, parameters=parameters)).segments)
    assert segments == [3, 3, 3]
    table.check(ask)
    check_lance(table.table.path)
    details = read_index_details(table.lake_table.storage, table.state().version)
    assert details is not None
    assert set(details.index_catchup) == {"n_index", "txt_index", "vec_index"}
    assert needs(table.lake_table, IndexPolicy(compact=False)) == ()
    table.flush()
    table.merge()
    maintain(table.lake_table, IndexPolicy(max_spare_fragments=1))
    table.check(ask)
    check_lance(table.table.path)


@pytest.mark.parametrize(("column", "kind"), sample(SCALAR, 3))
def test_scalar_indexes_in_segments(table: IndexedTable, ask: Ask, column: str, kind: str):
    report = build(table.lake_table, spec(column, kind))
    assert report.segments == 3
    assert report.is_maintained == (kind == "BTREE")
    assert len(table.segments(f"{column}_index")) == 1
    assert report.rows == table.state().rows
    for number in (0, 7, 13):
        found = ask(f"SELECT id FROM docs WHERE n = {number} ORDER BY id")["id"].to_pylist()
        assert found == sorted(one["id"] for one in table.rows.values() if one["n"] == number)
    found = ask("SELECT id FROM docs WHERE txt LIKE '%turn2%' ORDER BY id")["id"].to_pylist()
    assert found == sorted(one["id"] for one in table.rows.values() if "turn2" in one["txt"])


@pytest.mark.parametrize("kind", VECTOR)
def test_vector_indexes_in_segments(root: Path, writers: WriterProcess, ask: Ask, kind: str):
    table = IndexedTable(root, writers, rows(range(400)), indexes=False)
    table.turn(range(300, 600), 1)
    values = {"num_partitions": 2} | ({"num_sub_vectors": 2, "num_bits": 4} if "PQ" in kind else {})
    report = build(table.lake_table, spec("vec", kind, parameters=values))
    assert report.segments == 3
    assert table.segments("vec_index") == [600]
    assert table.index("vec_index").type == kind
    query = table.rows[(599,)]["vec"]
    ids = ask(table.nearest(query, 5, options="nprobes => 2, refine_factor => 20"))["id"].to_pylist()
    assert ids[0] == 599


def test_lists_of_labels_in_segments_of_a_table_without_mem_wal(root: Path):
    labels = [[f"l{number % 5}", f"m{number % 3}"] for number in range(200)]
    path = root / "plain.lance"
    lance.write_dataset(pa.table({"id": range(200), "labels": labels}), path, max_rows_per_file=50)
    report = build(LakeTable.at(str(path)), IndexSpec("labels", "label_list", segment_rows=50))
    assert (report.index, report.segments, report.is_maintained) == ("labels_idx", 4, True)
    found = lance.dataset(path).to_table(filter="array_has_any(labels, ['l3'])")["id"].to_pylist()
    assert sorted(found) == list(range(3, 200, 5))


def test_a_small_table_is_one_segment(table: IndexedTable):
    assert build(table.lake_table, IndexSpec("n")).segments == 1
    assert build(table.lake_table, IndexSpec("vec", "ivf_flat")).segments == 1


def test_too_few_rows_to_share_a_codebook_are_one_segment(root: Path, writers: WriterProcess):
    table = IndexedTable(root, writers, rows(range(200)), indexes=False)
    table.turn(range(200, 300), 1)
    values = {"num_partitions": 2, "num_sub_vectors": 2}
    assert build(table.lake_table, spec("vec", "IVF_PQ", parameters=values)).segments == 1


def test_rows_that_are_merged_while_it_is_built_are_in_it(table: IndexedTable, ask: Ask):
    build(table.lake_table, spec("txt", "INVERTED", parameters={"with_position": True}))

    class Racing:
        def run(self, function: Any, parts: Any, *, name: str) -> Any:
            results = list(Threads().run(function, parts, name=name))
            if name.startswith("build"):
                table.turn(range(380, 420), 2, deleted=range(30, 35))
            return iter(results)

    report = build(table.lake_table, spec("n", "BITMAP"), runner=Racing())
    assert report.rows == table.state().rows
    assert table.index("n_index").is_current
    maintain(table.lake_table, IndexPolicy(compact=False))
    table.check(ask)
    check_lance(table.table.path)


def test_files_that_are_put_together_meanwhile_make_it_begin_again(table: IndexedTable):
    built = []

    class Racing:
        def run(self, function: Any, parts: Any, *, name: str) -> Any:
            results = list(Threads().run(function, parts, name=name))
            if not built:
                table.table.dataset().optimize.compact_files()
            built.append(len(parts))
            return iter(results)

    report = build(table.lake_table, spec("n", "BTREE"), runner=Racing())
    assert built[0] == 3
    assert report.rows == table.state().rows
    assert table.index("n_index").is_current


def test_a_build_that_always_loses_is_given_up(table: IndexedTable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(versions, "_FIRST_PAUSE", 0.0)

    class Losing:
        def run(self, function: Any, parts: Any, *, name: str) -> Any:
            message = "Retryable commit conflict for version 8: preempted by concurrent transaction Rewrite"
            raise OSError(message)

    with pytest.raises(UnavailableError, match="can't build index 'n_index': 12 times another change"):
        build(table.lake_table, spec("n", "BTREE"), runner=Losing())
    assert table.state().indexes == ()


def test_an_index_of_that_name_is_replaced_when_told(table: IndexedTable):
    build(table.lake_table, spec("n", "BITMAP"))
    with pytest.raises(AlreadyExistsError, match="has an index 'n_index' already"):
        build(table.lake_table, spec("n", "BTREE"))
    build(table.lake_table, spec("n", "BTREE", replaces=True))
    assert table.index("n_index").type == "BTree"
    assert table.index("n_index").is_current


def test_what_cannot_be_built_is_refused(table: IndexedTable, root: Path, writers: WriterProcess):
    with pytest.raises(NotFoundError, match="no column 'vek': did you mean vec"):
        build(table.lake_table, IndexSpec("vek", "IVF_FLAT"))
    with pytest.raises(UnsupportedError, match=r"IVF_FLAT is of vectors .* column 'n' .* is int32"):
        build(table.lake_table, IndexSpec("n", "IVF_FLAT"))
    with pytest.raises(InvalidInputError, match="num_sub_vectors is 3, which does not divide the 8"):
        build(table.lake_table, IndexSpec("vec", "IVF_PQ", parameters={"num_sub_vectors": 3}))
    empty = IndexedTable(root, writers, [], indexes=False, name="empty")
    with pytest.raises(PreconditionError, match="pipeline merge empty"):
        build(empty.lake_table, IndexSpec("vec", "IVF_FLAT"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id", "write it as COLUMN:TYPE"),
        ("id:", "write it as COLUMN:TYPE"),
        ("id:BTREE:a:b", "write it as COLUMN:TYPE"),
        ("id:TREE", "there is no index of type 'TREE': the types are BTREE, BITMAP"),
    ],
)
def test_texts_that_name_no_index(text: str, message: str):
    with pytest.raises(InvalidInputError, match=message):
        IndexSpec.parse(text)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("BTREE", {"m": "1"}, "type BTREE has no parameter 'm': its parameters are none"),
        ("IVF_FLAT", {"metric": "l3"}, "metric .* is 'l3', but must be one of l2, cosine"),
        ("IVF_FLAT", {"num_partitions": "0"}, "is '0', but must be a number from 1"),
        ("FTS", {"stem": "maybe"}, "type INVERTED is 'maybe', but must be true or false"),
    ],
)
def test_parameters_that_make_no_sense(kind: str, parameters: dict[str, str], message: str):
    with pytest.raises(InvalidInputError, match=message):
        IndexSpec.parse(f"c:{kind}", parameters)
