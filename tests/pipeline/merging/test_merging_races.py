"""Several mergers, and everything else that may change a table while one is at work."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.pipeline.jobs.lake import TableState
from lance_gateway.pipeline.merging import MergePolicy, committing, job, merge
from tests.support.lake.merged import MergedTable, run_between
from tests.support.lake.merging import clean_up_merged
from tests.support.lake.tables import key_field, unpartitioned
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string()), pa.field("n", pa.int32())])


def row(key: int, value: str) -> dict[str, object]:
    return {"id": key, "v": value, "n": key}


@pytest.fixture
def kept(root: Path, writers: WriterProcess) -> MergedTable:
    base = [row(one, "base") for one in range(10)]
    return MergedTable.create(root, writers, unpartitioned(("id",), 2), SCHEMA, base)


@pytest.mark.slow
def test_a_delete_that_lags_spares_what_a_faster_merger_merged_since(
    kept: MergedTable, monkeypatch: pytest.MonkeyPatch
):
    kept.delete({"id": 1})
    kept.put(row(3, "new"))  # so that the progress is not recorded by the delete itself
    kept.flush()

    def be_faster() -> None:
        kept.put(row(1, "again"))
        kept.flush()
        merge(kept.lake_table)

    run_between(monkeypatch, be_faster)
    merge(kept.lake_table)
    kept.check()


@pytest.mark.slow
def test_a_key_that_a_slower_merger_inserts_stays_deleted(kept: MergedTable, monkeypatch: pytest.MonkeyPatch):
    kept.put(row(50, "short-lived"))
    kept.flush()

    def delete_it() -> None:
        kept.delete({"id": 50})
        kept.flush()
        merge(kept.lake_table)

    run_between(monkeypatch, delete_it)
    merge(kept.lake_table)
    kept.check()


@pytest.mark.slow
def test_a_key_that_a_merger_with_an_older_view_inserts_stays_deleted(
    kept: MergedTable, monkeypatch: pytest.MonkeyPatch
):
    """Lance lets a region's 1 be recorded, and 2 after it, by mergers that know nothing of each other."""
    kept.put(row(50, "short-lived"))
    kept.flush()
    older = TableState.read(kept.lake_table)
    kept.delete({"id": 50})
    kept.put(row(51, "new"))
    kept.flush()

    def merge_with_the_older_view() -> None:
        views = iter([older])
        read = TableState.read
        with monkeypatch.context() as patch:
            patch.setattr(
                TableState, "read", lambda table, known=None: next(views, None) or read(table, known=known)
            )
            merge(kept.lake_table)

    run_between(monkeypatch, merge_with_the_older_view, before_pass=2)
    merge(kept.lake_table)
    kept.check()


@pytest.mark.slow
def test_a_merger_ends_where_one_that_began_earlier_does(kept: MergedTable, monkeypatch: pytest.MonkeyPatch):
    region = kept.table.region_of({"id": 1})
    kept.put(row(1, "first"))
    kept.flush()
    seen: list[list[int]] = []

    def be_faster() -> None:
        kept.put(row(1, "second"))
        kept.flush()
        report = merge(kept.lake_table)
        seen.append([one.generations[region] for one in report.batches])

    run_between(monkeypatch, be_faster)
    report = merge(kept.lake_table)
    kept.check()
    assert seen == [[1, 2]]
    assert report.batches == ()
    assert kept.list_extents() == []


@pytest.mark.slow
def test_what_a_dead_merger_had_agreed_to_holds_for_the_next(
    kept: MergedTable, monkeypatch: pytest.MonkeyPatch
):
    kept.put(row(1, "first"))
    kept.flush()
    monkeypatch.setattr(job, "commit", dies)
    with pytest.raises(Death):
        merge(kept.lake_table)
    (extent,) = kept.list_extents()
    assert extent == f"{kept.table.region_of({'id': 1})}.1"
    monkeypatch.undo()
    kept.put(row(1, "second"))
    kept.flush()
    report = merge(kept.lake_table)
    kept.check()
    assert len(report.batches) == 2
    assert kept.list_extents() == []


@pytest.mark.slow
def test_a_merger_that_dies_between_its_passes_leaves_every_answer_right(
    root: Path, kept: MergedTable, monkeypatch: pytest.MonkeyPatch
):
    kept.delete({"id": 1})
    kept.put(row(2, "new"), row(50, "new"))
    kept.flush()
    monkeypatch.setattr(committing._Work, "_upsert", dies)
    with pytest.raises(Death):
        merge(kept.lake_table)
    assert kept.base().count_rows() == 9  # the delete is committed
    gateway = EngineGateway(root)
    expected = [kept.rows[key] for key in sorted(kept.rows)]
    assert gateway.read("SELECT * FROM t ORDER BY id").to_pylist() == expected
    monkeypatch.undo()
    merge(kept.lake_table)
    kept.check()
    assert gateway.read("SELECT * FROM t ORDER BY id").to_pylist() == expected
    gateway.close()


class Death(BaseException):
    """As if the process had been killed."""


def dies(*_: object, **__: object) -> None:
    raise Death


def compact(kept: MergedTable) -> None:
    kept.base().optimize.compact_files()


def index(kept: MergedTable) -> None:
    kept.base().create_scalar_index("id", "BTREE")


def optimize(kept: MergedTable) -> None:
    gateway = EngineGateway(kept.table.path.parent)
    gateway.write("OPTIMIZE t")
    gateway.close()


def add_column(kept: MergedTable) -> None:
    kept.base().add_columns(pa.schema([pa.field("more", pa.int32())]))
    for one in kept.rows.values():
        one["more"] = None


def rename_column(kept: MergedTable) -> None:
    kept.base().alter_columns({"path": "v", "name": "w"})
    for one in kept.rows.values():
        one["w"] = one.pop("v")


def drop_column(kept: MergedTable) -> None:
    kept.base().drop_columns(["n"])
    for one in kept.rows.values():
        del one["n"]


def replace_column(kept: MergedTable) -> None:
    kept.base().drop_columns(["n"])
    kept.base().add_columns(pa.schema([pa.field("n", pa.string())]))
    for one in kept.rows.values():
        one["n"] = None


def update_around_mem_wal(kept: MergedTable) -> None:
    kept.base().update({"v": "'around'"}, where="id = 9")
    kept.rows[9,]["v"] = "around"


def delete_around_mem_wal(kept: MergedTable) -> None:
    kept.base().delete("id = 9")
    del kept.rows[9,]


def append_around_mem_wal(kept: MergedTable) -> None:
    lance.write_dataset(
        pa.Table.from_pylist([row(50, "around")], schema=SCHEMA), kept.table.path, mode="append"
    )


def insert_around_mem_wal(kept: MergedTable) -> None:
    rows = pa.Table.from_pylist([row(50, "around"), row(1, "around")], schema=SCHEMA)
    job = kept.base().merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    job.execute(rows)


@pytest.mark.slow
@pytest.mark.parametrize("before_pass", [1, 2])
@pytest.mark.parametrize(
    "change",
    sample([
        compact, index, optimize, add_column, rename_column, drop_column, replace_column,
        update_around_mem_wal, delete_around_mem_wal, append_around_mem_wal, insert_around_mem_wal,
    ], 4),
)  # fmt: skip
def test_the_table_may_change_during_a_pass(
    kept: MergedTable,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[MergedTable], None],
    before_pass: int,
):
    kept.delete({"id": 1}, {"id": 2})
    kept.put(row(3, "new"), row(50, "new"))
    kept.flush()
    run_between(monkeypatch, lambda: change(kept), before_pass=before_pass)
    merge(kept.lake_table)
    if change is insert_around_mem_wal and before_pass == 2:
        kept.rows[1,] = row(1, "around")  # it was written after the delete
    kept.check()


def test_an_older_version_that_is_restored_meanwhile_is_merged_into_anew(
    kept: MergedTable, monkeypatch: pytest.MonkeyPatch
):
    older = kept.base()
    kept.put(*(row(one, "new") for one in range(10)))
    kept.flush()
    merge(kept.lake_table)
    kept.put(row(2, "newer"))
    kept.flush()
    run_between(monkeypatch, older.restore)
    merge(kept.lake_table)
    merge(kept.lake_table)  # regions that had nothing to merge before
    kept.check()


@pytest.mark.slow
@pytest.mark.soak
def test_a_merge_gives_up_when_the_table_never_rests(kept: MergedTable, monkeypatch: pytest.MonkeyPatch):
    kept.put(row(3, "new"), row(50, "new"))
    kept.flush()
    monkeypatch.setattr(committing.time, "sleep", lambda _: None)
    pinned = committing._Work._pin_base

    def restless(work: committing._Work) -> object:
        base = pinned(work)
        rows = pa.Table.from_pylist([row(100 + base.version, "append")], schema=SCHEMA)
        lance.write_dataset(rows, kept.table.path, mode="append")
        return base

    monkeypatch.setattr(committing._Work, "_pin_base", restless)
    with pytest.raises(UnavailableError, match="others changed it during each of 12 attempts"):
        merge(kept.lake_table)


def test_generations_that_were_merged_and_removed_meanwhile_are_no_loss(
    kept: MergedTable, monkeypatch: pytest.MonkeyPatch
):
    kept.put(row(3, "new"), row(50, "new"), row(51, "new"))
    kept.flush()
    divide = job.batches

    def be_faster(*arguments: object) -> object:
        monkeypatch.undo()
        merge(kept.lake_table)
        for region in set(kept.table.regions.values()):
            clean_up_merged(kept.table.path, region)
        return divide(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(job, "batches", be_faster)
    report = merge(kept.lake_table)
    assert report.batches == ()
    found = kept.base().to_table().to_pylist()
    assert {(one["id"],): one for one in found} == kept.rows


@pytest.mark.slow
def test_three_mergers_at_once_while_rows_are_written(kept: MergedTable):
    stop = threading.Event()
    errors: list[LanceGatewayError] = []
    policies = (MergePolicy(), MergePolicy(batch_rows=3), MergePolicy(min_generations=2))

    def go_on(policy: MergePolicy) -> None:
        while not stop.is_set():
            try:
                merge(kept.lake_table, policy)
            except UnavailableError as error:
                errors.append(error)

    threads = [threading.Thread(target=go_on, args=(policy,)) for policy in policies]
    for thread in threads:
        thread.start()
    for turn in range(8):
        kept.put(*(row(one, f"turn {turn}") for one in range(turn, 20, 2)))
        kept.delete(*({"id": one} for one in range(turn + 1, 20, 3)))
        kept.flush()
    stop.set()
    for thread in threads:
        thread.join()
    merge(kept.lake_table)
    kept.check()
    assert kept.list_extents() == []


@pytest.mark.slow
@pytest.mark.soak
def test_mergers_in_processes_of_their_own(root: Path, kept: MergedTable):
    for turn in range(4):
        kept.put(*(row(one, f"turn {turn}") for one in range(turn, 20, 2)))
        kept.delete(*({"id": one} for one in range(turn + 1, 20, 3)))
        kept.flush()
    program = "from lance_gateway.gateway.cli import main; main()"
    command = ["pipeline", "merge", "--root", str(root), "--batch-rows", "12"]
    mergers = [subprocess.Popen([sys.executable, "-c", program, *command]) for _ in range(2)]
    assert [one.wait() for one in mergers] == [0, 0]
    kept.check()
    assert kept.list_extents() == []
