"""A region that has rows under two ids is refused, and comes back to one id without losing a newer row."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.regions.wal import read_wal_entry, wal_entry_path
from lance_gateway.memwal.writing.region.claim import Claim
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.cli import app
from lance_gateway.pipeline.jobs.lake import TableState
from lance_gateway.pipeline.merging import merge, uniting
from lance_gateway.pipeline.status.reading import read_status
from tests.lancedb.both import KINDS, Both, Kind
from tests.support.lake.merging import merge_generations

Making = Callable[..., Both]


def double(table: Both) -> tuple[str, str]:
    """Both write tenant `ann`, each under an id of its own; ids of the region."""
    own, named = table.make_own_region("ann")
    table.insert("ann", *((key, 10) for key in range(1, 8)))
    table.by_lancedb("ann", (1, 20), (2, 20), (3, 20), (8, 20), flush=True)
    # LanceDB wrote 1 last, Lance 2 and 3, and each of them some keys alone.
    table.by_lance(own, "ann", (2, 30), (9, 30), gone=(3, 4))
    table.by_lancedb("ann", (5, 40), (9, 40))
    return own, named


def refuses(table: Both, own: str, named: str) -> None:
    for statement in (
        lambda: table.rows("tenant = 'ann'"),
        lambda: table.sql("INSERT INTO t VALUES ('ann', 9, 9)"),
        lambda: table.sql("UPDATE t SET v = 0 WHERE tenant = 'ann'"),
    ):
        with pytest.raises(PreconditionError, match=f"two ids, {own} and {named}.*pipeline merge"):
            statement()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_keeps_the_newer_row_of_each_key(both: Making, kind: Kind):
    table = both(kind, rows={("ann", 0): 0, ("ann", 1): 0})
    own, named = double(table)
    refuses(table, own, named)

    report = merge(table.lake_table)

    assert report.united == 1
    table.check()
    assert table.manifest(own).sealed
    assert merge(table.lake_table).united == 0
    table.insert("ann", (1, 50))
    table.by_lancedb("ann", (2, 60), flush=True)
    table.sql("UPDATE t SET v = v + 1 WHERE tenant = 'ann' AND id IN (1, 2)")
    table.acknowledged |= {("ann", 1): 51, ("ann", 2): 61}
    table.check()
    clean(table.lake_table, CleanPolicy(grace_seconds=0), delete=True)
    merge(table.lake_table)
    table.check()


@pytest.mark.slow
def test_the_rest_of_the_table_is_read_and_written(both: Making):
    table = both("identity")
    own, named = double(table)
    table.by_lancedb("bob", (1, 1))
    table.close()
    table.insert("bob", (2, 2))
    table.sql("UPDATE t SET v = 3 WHERE tenant = 'bob' AND id = 1")
    assert table.rows("tenant = 'bob'") == [("bob", 1, 3), ("bob", 2, 2)]
    refuses(table, own, named)


@pytest.mark.slow
def test_rows_that_were_merged_under_the_other_id_stay_newer(both: Making):
    table = both("bucket")
    own, _ = table.make_own_region("ann")
    table.by_lancedb("ann", (1, 1), (2, 2))  # stays in the log
    table.by_lance(own, "ann", (1, 10), gone=())
    merge_as_before(table, own)
    merge(table.lake_table)
    table.check()


def merge_as_before(table: Both, region_id: str) -> None:
    """Merge one region, as versions up to 0.6 did whatever other regions there are."""
    newest = table.manifest(region_id).flushed_generations[-1].generation
    merge_generations(table.root / "t.lance", region_id, newest)


def merge_by_command(table: Both, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["merge", "--root", str(table.root), "t", *arguments])


@pytest.mark.slow
def test_rows_of_equal_time_are_decided_by_hand(both: Making):
    table = both("bucket")
    own, named = double(table)
    for region_id in (own, named):
        for name in (table.root / "t.lance/_mem_wal" / region_id / "wal").iterdir():
            os.utime(name, (1_000_000_000, 1_000_000_000))

    failed = merge_by_command(table)
    assert failed.exit_code != 0
    assert "keys, such as tenant = 'ann', id = " in " ".join(failed.output.split())
    refuses(table, own, named)
    done = merge_by_command(table, "--newer", named)
    assert done.stdout.startswith("t: 1 region had two ids and one now\nt: "), done.output

    expected = {1: 20, 2: 20, 3: 20, 5: 40, 6: 10, 7: 10, 8: 20, 9: 40}
    table.acknowledged = {("ann", key): v for key, v in expected.items()}
    table.check()


@pytest.mark.slow
def test_of_copied_files_no_time_counts(both: Making):
    table = both("bucket")
    own, _ = double(table)
    late = 4_000_000_000
    for name in (table.root / "t.lance/_versions").iterdir():
        os.utime(name, (late, late))
    with pytest.raises(PreconditionError, match="it is a copy"):
        merge(table.lake_table)
    merge(table.lake_table, newer=[own])
    expected = {1: 10, 2: 30, 5: 10, 6: 10, 7: 10, 8: 20, 9: 30}
    table.acknowledged = {("ann", key): v for key, v in expected.items()}
    table.check()


@pytest.mark.slow
def test_entries_that_are_gone_leave_it_undecided(both: Making):
    table = both("bucket")
    _, named = double(table)
    (table.root / "t.lance" / wal_entry_path(named, 1)).unlink()
    with pytest.raises(PreconditionError, match="can't be told"):
        merge(table.lake_table)


@pytest.mark.slow
def test_of_a_log_with_a_gap_no_older_row_is_taken(both: Making):
    table = both("bucket")
    own, _ = double(table)
    entry = next(
        position for position in range(2, 9) if not read_wal_entry(table.storage, own, position).is_fence
    )
    (table.root / "t.lance" / wal_entry_path(own, entry)).unlink()
    with pytest.raises(PreconditionError, match="of 1 key, such as tenant = 'ann', id = 2,"):
        merge(table.lake_table)
    merge(table.lake_table, newer=[own])
    table.check()


@pytest.mark.slow
def test_a_region_with_a_second_id_and_no_rows_is_given_up(both: Making):
    table = both("unsharded")
    own, named = table.make_own_region("ann")
    table.by_lancedb("ann", (1, 1))
    refuses(table, own, named)
    merge(table.lake_table)
    table.insert("ann", (2, 2))
    table.check()
    assert not TableState.read(table.lake_table).regions[own].pending


@pytest.mark.slow
@pytest.mark.parametrize("dies_in", ["seal", "append", "record", "let go"])
def test_a_merge_that_dies_is_finished_by_the_next_one(
    both: Making, monkeypatch: pytest.MonkeyPatch, dies_in: str
):
    table = both("bucket")
    own, _ = double(table)

    def die(*_: object, **__: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        if dies_in == "seal":
            patched.setattr(uniting, "commit_manifest", die)
        elif dies_in == "append":
            append, left = Claim.append, [1]
            patched.setattr(
                Claim, "append", lambda *a, **b: append(*a, **b) if left and left.pop() else die()
            )
        elif dies_in == "record":
            patched.setattr(uniting, "_record_as_merged", die)
        else:
            close = Claim.close
            patched.setattr(Claim, "close", lambda one: close(one) if one.region_id == own else die())
        with pytest.raises(OSError, match="killed"):
            merge(table.lake_table)

    merge(table.lake_table)
    table.check()


@pytest.mark.slow
def test_what_lancedb_writes_while_rows_are_moved_stays(both: Making, monkeypatch: pytest.MonkeyPatch):
    table = both("bucket")
    double(table)
    read, written = uniting.read_key_times, []

    def read_key_times(*given: Any) -> Any:
        found = read(*given)
        if len(written) < 4:
            # The region is claimed by LanceDB, and its newest row is one of those that are about to be moved.
            written.append(table.by_lancedb("ann", (2, 70 + len(written)), (6, 70), flush=True))
        return found

    monkeypatch.setattr(uniting, "read_key_times", read_key_times)
    merge(table.lake_table)
    assert len(written) == 4
    table.check()


@pytest.mark.slow
def test_two_merges_at_once_agree(both: Making):
    table = both("identity")
    double(table)
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(merge, table.lake_table) for _ in range(2)]
        for one in done:
            one.result()
    table.check()


@pytest.mark.slow
def test_status_and_system_tables_tell_of_it(both: Making):
    table = both("bucket")
    own, named = double(table)
    status = {one.region_id: one for one in read_status(table.lake_table).regions}
    assert status[own].lancedb_id == named
    assert status[named].lancedb_id is None
    found = table.engine.execute("SELECT region_id, region_values FROM system.regions").read_all().to_pylist()
    assert {one["region_id"]: one["region_values"] for one in found} == {
        own: ["bucket=0"],
        named: ["bucket=0"],
    }
    merge(table.lake_table)
    assert {one.lancedb_id for one in read_status(table.lake_table).regions} == {None}
