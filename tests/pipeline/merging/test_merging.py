"""What merging does to a table, and what it never does."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.base import table_place
from lance_gateway.memwal.errors import NotFoundError, PreconditionError, UnavailableError, UnsupportedError
from lance_gateway.pipeline.cleaning import clean
from lance_gateway.pipeline.indexing import maintain
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable, TableState
from lance_gateway.pipeline.jobs.runners import Threads
from lance_gateway.pipeline.merging import MergePolicy, merge
from lance_gateway.pipeline.merging.winners import check_key
from lance_gateway.pipeline.snapshotting import snapshot
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.merged import MergedTable
from tests.support.lake.tables import LsmTable, bucketed, key_field, unpartitioned
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])


def row(key: int, value: str | None) -> dict[str, object]:
    return {"id": key, "v": value}


@pytest.fixture
def kept(root: Path, writers: WriterProcess) -> MergedTable:
    layout = bucketed("id", 3, recorded=True)
    return MergedTable.create(root, writers, layout, SCHEMA, [row(one, "base") for one in range(10)])


def test_the_base_table_has_the_newest_rows_and_the_progress(kept: MergedTable):
    for value in ("first", "second"):
        kept.put(*(row(one, value) for one in range(5, 15)))
        kept.delete({"id": 7})
        kept.flush()
    report = merge(kept.lake_table)
    kept.check()
    assert (report.table, report.regions, report.generations, report.left) == ("t", 3, 6, 0)
    assert (report.upserted, report.deleted, len(report.batches)) == (9, 1, 1)


@pytest.mark.parametrize(
    "job",
    [merge, maintain, snapshot, partial(clean, delete=True)],
    ids=["merge", "maintain", "snapshot", "clean"],
)
def test_nobody_moves_a_table_while_a_job_works_on_it(
    kept: MergedTable, monkeypatch: pytest.MonkeyPatch, job: Callable[[LakeTable], object]
):
    """Another table that takes its place would get what the job commits."""
    kept.put(row(1, "new"))
    kept.flush()
    reads: list[bool] = []
    monkeypatch.setattr(table_place, "_WAIT_SECONDS", 0.0)
    find_dataset = LakeTable.dataset

    def read(table: LakeTable, version: int | str | None = None) -> object:
        with pytest.raises(UnavailableError, match="merged"), table_place.reserve_place(table.storage):
            pass
        reads.append(True)
        return find_dataset(table, version)

    with monkeypatch.context() as patched:
        patched.setattr(LakeTable, "dataset", read)
        job(kept.lake_table)
    assert reads
    with table_place.reserve_place(kept.lake_table.storage):
        pass


def test_a_second_merge_finds_nothing(kept: MergedTable):
    kept.put(row(1, "new"))
    kept.flush()
    merge(kept.lake_table)
    version = kept.base().version
    report = merge(kept.lake_table)
    assert (report.batches, report.left, kept.base().version) == ((), 0, version)


def test_a_key_may_be_deleted_and_written_again_in_any_order(kept: MergedTable):
    kept.delete({"id": 1}, {"id": 2})
    kept.put(row(20, "short-lived"))
    kept.flush()
    kept.put(row(1, "again"))
    kept.delete({"id": 20}, {"id": 21})
    kept.flush()
    kept.put(row(21, "at last"))
    kept.flush()
    merge(kept.lake_table)
    kept.check()


def test_generations_of_nothing_but_tombstones_are_merged(kept: MergedTable):
    kept.delete({"id": 1}, {"id": 404})
    kept.flush()
    report = merge(kept.lake_table)
    kept.check()
    assert (report.upserted, report.deleted) == (0, 1)


@pytest.mark.slow
def test_queries_answer_the_same_before_and_after(root: Path, kept: MergedTable):
    kept.put(*(row(one, "new") for one in range(8, 12)))
    kept.delete({"id": 3})
    kept.flush()
    kept.put(row(9, None))
    gateway = EngineGateway(root)
    expected = [kept.rows[key] for key in sorted(kept.rows)]
    for _ in range(2):
        assert gateway.read("SELECT id, v FROM t ORDER BY id").to_pylist() == expected
        merge(kept.lake_table)
    gateway.close()


def test_only_chosen_regions_are_merged(kept: MergedTable):
    kept.put(*(row(one, "new") for one in range(10)))
    kept.flush()
    chosen = kept.table.region_of({"id": 1})
    report = merge(kept.lake_table, regions=[chosen])
    assert list(report.batches[0].generations) == [chosen]
    state = TableState.read(kept.lake_table)
    assert {one for one, region in state.regions.items() if region.pending} == set(state.regions) - {chosen}
    merge(kept.lake_table)
    kept.check()


def test_a_region_that_is_not_there_is_refused(kept: MergedTable):
    kept.put(row(1, "new"))
    with pytest.raises(NotFoundError, match="'t' has no region 'nowhere'; it has "):
        merge(kept.lake_table, regions=["nowhere"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", [MergePolicy(batch_rows=1), MergePolicy(batch_bytes=1)])
def test_the_smallest_batches_lead_to_the_same_table(kept: MergedTable, policy: MergePolicy):
    for value in ("first", "second", "third"):
        kept.put(*(row(one, value) for one in range(5, 15)))
        kept.delete({"id": 9}, {"id": 2})
        kept.flush()
    report = merge(kept.lake_table, policy, runner=Threads(2))
    kept.check()
    assert len(report.batches) == report.generations
    assert kept.list_extents() == []


def test_a_composite_key_of_any_types(root: Path, writers: WriterProcess):
    types = {"n": pa.int16(), "flag": pa.bool_(), "text": pa.large_string(), "raw": pa.binary()}
    fields = [key_field(name, kind, at + 1) for at, (name, kind) in enumerate(types.items())]
    schema = pa.schema([*fields, pa.field("v", pa.int32())])
    kept = MergedTable.create(root, writers, unpartitioned(tuple(types), 1), schema)

    def one(
        n: int, v: int, *, flag: bool = True, text: str = "ä", raw: bytes = b"\x00\xff"
    ) -> dict[str, object]:
        return {"n": n, "flag": flag, "text": text, "raw": raw, "v": v}

    kept.put(one(1, 1), one(1, 2, flag=False), one(1, 3, text=""), one(1, 4, raw=b""))
    kept.flush()
    merge(kept.lake_table)
    kept.check()
    kept.put(one(1, 5), one(-(2**15), 6))
    kept.delete(one(1, 0, flag=False))
    kept.flush()
    kept.put(one(1, 7, text=""))
    kept.flush()
    merge(kept.lake_table)
    kept.check()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.uint64(), [0, 2**64 - 1, 2**63]),
        (pa.int8(), [-128, 0, 127]),
        (pa.string(), ["", "ü", "z"]),
        (pa.large_binary(), [b"", b"\x00", b"\xff"]),
    ],
)
def test_keys_of_one_type(root: Path, writers: WriterProcess, kind: pa.DataType, values: list[object]):
    schema = pa.schema([key_field("id", kind), pa.field("v", pa.string())])
    kept = MergedTable.create(
        root, writers, unpartitioned(("id",), 1), schema, [{"id": values[0], "v": "base"}]
    )
    kept.put(*({"id": value, "v": "new"} for value in values))
    kept.flush()
    kept.delete({"id": values[0]})
    kept.put({"id": values[1], "v": "newest"})
    kept.flush()
    merge(kept.lake_table)
    kept.check()


def test_rows_keep_their_stable_row_ids(root: Path, writers: WriterProcess):
    base = [row(one, "base") for one in range(4)]
    kept = MergedTable.create(root, writers, unpartitioned(("id",), 1), SCHEMA, base, stable_row_ids=True)

    def row_ids() -> dict[int, int]:
        found = kept.base().to_table(with_row_id=True)
        return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))

    before = row_ids()
    kept.put(row(1, "new"), row(9, "new"))
    kept.delete({"id": 2})
    kept.flush()
    merge(kept.lake_table)
    kept.check()
    after = row_ids()
    assert {key: after[key] for key in (0, 1, 3)} == {key: before[key] for key in (0, 1, 3)}
    assert after[9] not in before.values()


def test_a_table_with_a_key_index_is_merged_by_looking_keys_up(root: Path, writers: WriterProcess):
    base = [row(one, "base") for one in range(1000)]
    kept = MergedTable.create(root, writers, unpartitioned(("id",), 1), SCHEMA, base)
    kept.base().create_scalar_index("id", "BTREE")
    kept.put(row(1, "new"), row(2000, "new"))
    kept.delete({"id": 2})
    kept.flush()
    merge(kept.lake_table)
    kept.check()
    kept.put(row(2000, "newer"), row(3, "new"))  # 2000 lies in a fragment that the index does not cover
    kept.flush()
    merge(kept.lake_table)
    kept.check()


def test_what_is_larger_than_a_batch_is_streamed(kept: MergedTable):
    kept.put(*(row(one, "x" * 100) for one in range(500)))
    kept.delete({"id": 3})
    kept.flush()
    merge(kept.lake_table, MergePolicy(batch_bytes=1))
    kept.check()


def test_a_table_without_mem_wal_is_refused(root: Path):
    lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")
    with pytest.raises(PreconditionError, match="'plain' has no MemWAL"):
        merge(Lake.open(str(root)).table("plain"))


def test_a_table_without_key_has_each_row_once(root: Path, writers: WriterProcess):
    schema = pa.schema([pa.field("a", pa.int64())])
    path = root / "log.lance"
    lance.write_dataset(schema.empty_table(), path).initialize_mem_wal()
    table = LsmTable(path, (), unpartitioned((), 1), writers)
    writer = writers.open(path, "00000000-0000-4000-8000-000000000001")
    writer.put([{"a": 1}, {"a": 1}])
    writer.close()
    version = table.dataset().version
    moved = merge(Lake.open(str(root)).table("log"))
    assert (moved.upserted, moved.generations, moved.left) == (2, 1, 0)
    assert table.dataset().version == version + 1
    assert table.dataset().to_table().to_pydict() == {"a": [1, 1]}
    assert merge(Lake.open(str(root)).table("log")).batches == ()
    engine = QueryEngine(Catalog.open(str(root)))
    assert engine.execute("SELECT a FROM log").read_all().to_pydict() == {"a": [1, 1]}
    engine.close()


def test_merges_of_a_table_without_key_at_the_same_time_move_each_row_once(
    root: Path, writers: WriterProcess
):
    path = root / "log.lance"
    lance.write_dataset(pa.table({"a": pa.array([], pa.int64())}), path).initialize_mem_wal()
    for number in range(3):
        writer = writers.open(path, f"00000000-0000-4000-8000-00000000000{number}")
        writer.put([{"a": number}, {"a": number}])
        writer.close()
    lake = Lake.open(str(root))
    with ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(lambda _: merge(lake.table("log"), MergePolicy(batch_bytes=1)), range(3)))
    assert sum(report.upserted for report in reports) == 6
    assert sorted(lance.dataset(path).to_table()["a"].to_pylist()) == [0, 0, 1, 1, 2, 2]


def test_a_key_that_can_t_be_compared_is_refused(root: Path):
    schema = pa.schema([key_field("x", pa.float64())])
    with pytest.raises(UnsupportedError, match="key column 'x' has type double"):
        check_key(LakeTable.at(str(root / "t.lance")), schema)
