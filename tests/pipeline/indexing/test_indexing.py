"""What upkeep does to the indexes and files of a table, and that answers never change by it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.base import versions
from lance_gateway.memwal.base.index_details import read_index_details
from lance_gateway.memwal.errors import PreconditionError, UnavailableError
from lance_gateway.pipeline.indexing import IndexPolicy, job, maintain, needs, optimising
from lance_gateway.pipeline.indexing.indexes import DIRECTORY
from lance_gateway.pipeline.indexing.optimising import OptimiseResult
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import Threads, ignore_progress
from tests.pipeline.indexed_table import IndexedTable, check_lance, rows
from tests.planner.search.sources.replayed import Ask
from tests.support.processes.writer_process import WriterProcess

pytestmark = pytest.mark.slow

NAMES = ("n_index", "txt_index", "vec_index")
EAGER = IndexPolicy(max_spare_fragments=1)
LAZY = IndexPolicy(compact=False)


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def table(root: Path, writers: WriterProcess, request: pytest.FixtureRequest) -> IndexedTable:
    return IndexedTable(root, writers, stable_row_ids=request.param)


@pytest.fixture
def plain_table(root: Path, writers: WriterProcess) -> IndexedTable:
    return IndexedTable(root, writers)


# Indexes catch up


def test_indexes_have_what_was_merged(table: IndexedTable, ask: Ask):
    table.turn(range(150, 260), 1, deleted=range(20, 30))
    table.check(ask)
    report = maintain(table.lake_table, LAZY)
    assert report.optimised == NAMES
    assert report.lagging == ()
    assert len(report.reasons) == 3
    state = table.state()
    assert all(one.is_current for one in state.indexes)
    details = read_index_details(table.lake_table.storage, state.version)
    assert details is not None
    assert {name: dict(found) for name, found in details.index_catchup.items()} == {
        name: dict(details.merged_generations) for name in NAMES
    }
    table.check(ask)
    check_lance(table.table.path)


def test_nothing_is_done_where_nothing_is_needed(table: IndexedTable):
    assert needs(table.lake_table) == ()
    table.turn(range(150, 260), 1)
    maintain(table.lake_table, LAZY)
    version = table.state().version
    report = maintain(table.lake_table, LAZY)
    assert (report.reasons, report.optimised, report.version) == ((), (), version)


def test_merged_deletions_alone_leave_indexes_as_they_are_and_caught_up(table: IndexedTable, ask: Ask):
    segments = {name: table.index(name).segments for name in NAMES}
    table.turn(range(0), 1, deleted=range(20, 30))
    assert all("it is behind the merges of" in one for one in needs(table.lake_table, LAZY))
    assert all(one.behind and not one.uncovered for one in table.state().indexes)
    maintain(table.lake_table, LAZY)
    for name in NAMES:
        assert [one.segment_id for one in table.index(name).segments] == [
            one.segment_id for one in segments[name]
        ]
        assert table.index(name).is_current
    table.check(ask)


def test_fresh_rows_stay_fresh(table: IndexedTable, ask: Ask):
    table.turn(range(150, 260), 1)
    table.put(*rows(range(140, 160), 2))
    table.delete({"id": 141}, {"id": 5})
    table.flush()
    table.put(*rows(range(155, 165), 2))
    table.check(ask)
    maintain(table.lake_table, EAGER)
    table.check(ask)
    table.flush()
    table.merge()
    maintain(table.lake_table, EAGER)
    table.check(ask)


def test_what_a_policy_puts_up_with_is_left_alone(plain_table: IndexedTable):
    plain_table.turn(range(150, 170), 1)
    assert needs(plain_table.lake_table, IndexPolicy(max_unindexed_rows=20)) == ()
    assert needs(plain_table.lake_table, IndexPolicy(max_unindexed_rows=19)) != ()
    assert needs(plain_table.lake_table, IndexPolicy(20, max_unindexed_fraction=0.05)) != ()


def test_an_index_that_covers_nothing_gets_everything(root: Path, writers: WriterProcess, ask: Ask):
    table = IndexedTable(root, writers, [])
    table.turn(range(100), 1)
    maintain(table.lake_table)
    assert all(one.is_current for one in table.state().indexes)
    table.check(ask)


def test_tables_without_mem_wal_are_maintained_too(root: Path):
    path = root / "plain.lance"
    lance.write_dataset(pa.table({"a": range(100)}), path)
    lance.dataset(path).create_scalar_index("a", "BTREE", name="a_index")
    lance.write_dataset(pa.table({"a": range(100, 120)}), path, mode="append")
    report = maintain(LakeTable.at(str(path)))
    assert report.optimised == ("a_index",)
    assert needs(LakeTable.at(str(path))) == ()


# Segments


def test_rows_that_are_added_rewrite_only_what_is_no_larger(plain_table: IndexedTable, ask: Ask):
    oldest = plain_table.index("txt_index").segments[0].segment_id
    seen = []
    for turn in range(4):
        plain_table.turn(range(1000 + 10 * turn, 1010 + 10 * turn), 1)
        maintain(plain_table.lake_table, LAZY)
        seen.append(plain_table.segments("txt_index"))
    assert seen == [[200, 10], [200, 20], [200, 20, 10], [200, 40]]
    assert plain_table.segments("n_index") == plain_table.segments("vec_index") == seen[-1]
    assert plain_table.index("txt_index").segments[0].segment_id == oldest
    plain_table.check(ask)


def test_text_indexes_of_rows_with_stable_ids_are_whole(root: Path, writers: WriterProcess, ask: Ask):
    """In a segment of its own, an old text would go on answering for a row that has a new one."""
    table = IndexedTable(root, writers, stable_row_ids=True)
    for turn in (1, 2):
        table.turn(range(150, 190), turn, deleted=range(10 * turn, 10 * turn + 5))
        maintain(table.lake_table, LAZY)
        assert len(table.segments("txt_index")) == 1
        check_lance(table.table.path)
        table.check(ask)


# Files


def test_small_fragments_are_put_together_and_indexes_cover_them(table: IndexedTable, ask: Ask):
    for turn in range(1, 4):
        table.turn(range(150 + 20 * turn, 200 + 20 * turn), turn, deleted=range(10 * turn, 10 * turn + 5))
        maintain(table.lake_table, LAZY)
    before = len(table.state().fragments)
    report = maintain(table.lake_table, EAGER)
    assert report.fragments_removed == before > 4
    assert report.fragments_added == len(table.state().fragments) == 1
    state = table.state()
    assert all(one.is_current for one in state.indexes)
    assert sum(one.deleted for one in state.fragments) == 0
    assert set(read_index_details(state.table.storage, state.version).index_catchup) == set(NAMES)
    assert report.lagging == ()
    table.check(ask)
    check_lance(table.table.path)
    assert needs(table.lake_table, EAGER) == ()


def test_deleted_rows_are_left_out_above_a_threshold(table: IndexedTable, ask: Ask):
    table.turn(range(0), 1, deleted=range(20))
    policy = IndexPolicy(deleted_fraction=0.1)
    maintain(table.lake_table, policy)
    assert [one.deleted for one in table.state().fragments] == [20]
    table.turn(range(0), 1, deleted=range(20, 25))
    assert "more than 10% of the rows of 1 fragment are deleted" in needs(table.lake_table, policy)
    report = maintain(table.lake_table, policy)
    assert (report.fragments_removed, report.fragments_added) == (1, 1)
    assert [(one.physical_rows, one.deleted) for one in table.state().fragments] == [(175, 0)]
    assert all(one.is_current for one in table.state().indexes)
    table.check(ask)


def test_indexes_that_know_fragments_only_are_built_again_after_compaction(
    plain_table: IndexedTable, ask: Ask
):
    dataset = plain_table.table.dataset()
    dataset.create_scalar_index("n", "ZONEMAP", name="zones")
    plain_table.table.dataset().create_scalar_index("id", "BLOOMFILTER", name="blooms")
    for turn in (1, 2):
        plain_table.turn(range(100, 150), turn)
    maintain(plain_table.lake_table, EAGER)
    assert plain_table.segments("zones") == plain_table.segments("blooms") == [200]
    plain_table.check(ask)


def test_large_fragments_are_not_written_again(plain_table: IndexedTable):
    policy = IndexPolicy(max_spare_fragments=1, target_rows=150)
    (large,) = (one.fragment_id for one in plain_table.state().fragments)
    for turn in range(4):
        plain_table.turn(range(1000 + 10 * turn, 1010 + 10 * turn), 1)
    maintain(plain_table.lake_table, policy)
    first, second = plain_table.state().fragments
    assert first.fragment_id == large
    assert second.rows == 40


# What goes wrong


def test_a_merge_that_comes_first_makes_compaction_begin_again(table: IndexedTable, ask: Ask):
    for turn in (1, 2):
        table.turn(range(150, 200), turn)
    calls = []

    class Racing:
        """Merges once while files are being put together."""

        def run(self, function: Any, parts: Any, *, name: str) -> Any:
            results = list(Threads().run(function, parts, name=name))
            if name.startswith("compact") and "compact" not in calls:
                table.turn(range(180, 220), 3, deleted=range(10, 15))
            calls.append(name.split(maxsplit=1)[0])
            return iter(results)

    report = maintain(table.lake_table, EAGER, runner=Racing())
    assert calls.count("compact") == 2
    assert report.fragments_removed
    assert report.lagging == ()
    assert all(one.is_current for one in table.state().indexes)
    table.check(ask)
    check_lance(table.table.path)


def test_merges_after_the_last_look_are_told_and_not_chased(table: IndexedTable, ask: Ask):
    table.turn(range(150, 200), 1)

    class Racing:
        def run(self, function: Any, parts: Any, *, name: str) -> Any:
            results = list(Threads().run(function, parts, name=name))
            table.turn(range(180, 220), 2)
            return iter(results)

    report = maintain(table.lake_table, LAZY, runner=Racing())
    assert report.optimised == NAMES
    assert report.lagging
    table.check(ask)
    maintain(table.lake_table, LAZY)
    table.check(ask)


def test_others_who_always_come_first_are_given_up_on(
    plain_table: IndexedTable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(versions, "_FIRST_PAUSE", 0.0)
    plain_table.turn(range(150, 200), 1)
    tries = []

    def losing(*_: Any) -> None:
        tries.append(1)
        message = "Retryable commit conflict for version 8: preempted by concurrent transaction Update"
        raise OSError(message)

    with monkeypatch.context() as patch:
        patch.setattr(job, "Compaction", type("Lost", (), {"plan": losing}))
        with pytest.raises(UnavailableError, match="12 times another change came first; try again later"):
            maintain(plain_table.lake_table, IndexPolicy(max_spare_fragments=0))
    assert len(tries) == versions.ATTEMPTS
    assert all(one.is_current for one in plain_table.state().indexes)


def test_an_index_that_cannot_catch_up_is_named_and_holds_up_no_other(plain_table: IndexedTable):
    plain_table.turn(range(150, 200), 1)
    maintain(plain_table.lake_table, LAZY)
    plain_table.turn(range(150, 220), 2)
    # The newest segment is folded into the new rows, which its files are needed for.
    broken = plain_table.index("txt_index").segments[-1].segment_id
    for file in (plain_table.table.path / "_indices" / broken).iterdir():
        file.write_bytes(b"")
    with pytest.raises(PreconditionError) as caught:
        maintain(plain_table.lake_table, LAZY)
    assert "index 'txt_index' can't catch up with the table" in str(caught.value)
    assert "--build COLUMN:TYPE:txt_index --replace" in str(caught.value)
    assert plain_table.index("n_index").is_current
    assert plain_table.index("vec_index").is_current


def test_an_index_lags_where_others_change_the_table_all_the_time_and_fails_where_nobody_does(
    plain_table: IndexedTable, monkeypatch: pytest.MonkeyPatch
):
    plain_table.turn(range(150, 200), 1)
    names = ("n_index",)
    turns = iter(range(2, 100))

    def nothing(_: Any, upkeep: Any, *__: Any) -> tuple[OptimiseResult, ...]:
        return tuple(map(OptimiseResult, upkeep))

    def nothing_beside_a_merge(*arguments: Any) -> tuple[OptimiseResult, ...]:
        plain_table.turn(range(300, 305), next(turns))
        return nothing(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(optimising, "optimise", nothing_beside_a_merge)
        optimising.catch_up(plain_table.lake_table, names, Threads(), ignore_progress)
    assert not plain_table.index("n_index").is_current
    with monkeypatch.context() as patch:
        patch.setattr(optimising, "optimise", nothing)
        with pytest.raises(PreconditionError, match=r"'n_index' can't catch up .* they still lack rows"):
            optimising.catch_up(plain_table.lake_table, names, Threads(), ignore_progress)
    optimising.catch_up(plain_table.lake_table, names, Threads(), ignore_progress)
    assert plain_table.index("n_index").is_current


# Training


def test_vector_indexes_are_trained_anew_after_many_additions(plain_table: IndexedTable, ask: Ask):
    policy = IndexPolicy(compact=False, retrain_after=2)
    trained = []
    for turn in range(4):
        plain_table.turn(range(1000 + 10 * turn, 1010 + 10 * turn), 1)
        report = maintain(plain_table.lake_table, policy)
        trained.append(report.retrained)
    assert trained == [(), (), ("vec_index",), ()]
    plain_table.check(ask)


def test_vector_indexes_are_trained_anew_when_the_table_has_grown(plain_table: IndexedTable, ask: Ask):
    policy = IndexPolicy(compact=False, retrain_growth=1.5)
    plain_table.turn(range(200, 210), 1)
    assert maintain(plain_table.lake_table, policy).retrained == ()
    plain_table.turn(range(210, 310), 1)
    assert maintain(plain_table.lake_table, policy).retrained == ()
    plain_table.turn(range(310, 320), 1)
    assert "it was trained on 210 rows, and there are 320" in needs(plain_table.lake_table, policy)[-1]
    report = maintain(plain_table.lake_table, policy)
    assert report.retrained == ("vec_index",)
    assert plain_table.segments("vec_index") == [320]
    plain_table.check(ask)


def test_codebooks_that_generations_share_are_trained_anew_only_where_that_is_said(
    root: Path, writers: WriterProcess, ask: Ask
):
    """Answers are right either way: what an older codebook finds is ranked by true distances."""
    table = IndexedTable(root, writers, rows(range(300)))
    table.index_vectors("IVF_PQ", num_partitions=1, num_sub_vectors=2, num_bits=4)
    policy = IndexPolicy(compact=False, retrain_growth=1.5)
    table.turn(range(300, 310), 1)
    maintain(table.lake_table, policy)
    assert table.state().shares_codebook(table.index("vec_index"))
    table.put(*rows(range(800, 820), 1))
    table.flush()
    table.merge()
    table.turn(range(310, 600), 1)
    table.put(*rows(range(600, 640), 2))
    table.flush()
    assert maintain(table.lake_table, policy).retrained == ()
    assert table.index("vec_index").is_current
    assert needs(table.lake_table, policy) == ()
    table.check(ask)
    assert maintain(table.lake_table, replace(policy, retrain_codebooks=True)).retrained == ("vec_index",)
    table.check(ask)
    table.merge()
    table.check(ask)


def test_what_is_recorded_of_training_may_be_lost_or_damaged(plain_table: IndexedTable):
    policy = IndexPolicy(compact=False, retrain_after=1)
    plain_table.turn(range(200, 210), 1)
    maintain(plain_table.lake_table, policy)
    (file,) = (plain_table.table.path / DIRECTORY).iterdir()
    assert json.loads(file.read_text())["rows"] == 210
    file.write_text("{")
    plain_table.turn(range(210, 220), 1)
    assert maintain(plain_table.lake_table, policy).retrained == ()
    assert json.loads(file.read_text())["rows"] == 220
