"""The pipeline's jobs as steps of histories, with drawn policies; none of them may change any answer."""

import time
from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from lance_gateway.memwal.regions.manifest import list_regions
from lance_gateway.pipeline.cleaning import CleanPolicy, clean, find
from lance_gateway.pipeline.indexing import IndexPolicy, maintain, needs
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from lance_gateway.pipeline.jobs.runners import Threads
from lance_gateway.pipeline.keeping import Keeper, Policies, RunPolicy
from lance_gateway.pipeline.merging import MergePolicy, merge
from lance_gateway.pipeline.snapshotting import SnapshotPolicy, snapshot
from lance_gateway.pipeline.status import read_status
from tests.oracle.answers.predicates import Draw

Job = Callable[[Draw, LakeTable], object]


def merge_all(draw: Draw, table: LakeTable) -> None:
    """All that is pending, in commits of many generations or of few."""
    policy = MergePolicy(
        batch_rows=draw(st.sampled_from((1, 4, 1_000)), label="batch_rows"),
        batch_bytes=draw(st.sampled_from((1, 1 << 20)), label="batch_bytes"),
        use_key_index=draw(st.booleans(), label="use_key_index"),
    )
    report = merge(table, policy, runner=_runner(draw))
    assert report.left == 0


def merge_a_region(draw: Draw, table: LakeTable) -> None:
    """One region alone."""
    regions = list_regions(table.storage)
    merge(table, regions=[draw(st.sampled_from(regions))] if regions else (), runner=_runner(draw))


def merge_if_due(draw: Draw, table: LakeTable) -> None:
    """When enough has come together."""
    merge(table, MergePolicy(min_generations=draw(st.integers(1, 4))), runner=_runner(draw))


def maintain_indexes(draw: Draw, table: LakeTable) -> None:
    """Indexes brought up to date, small files put together, some vector indexes retrained."""
    policy = IndexPolicy(
        max_unindexed_rows=draw(st.sampled_from((0, 5)), label="max_unindexed_rows"),
        compact=draw(st.booleans(), label="compact"),
        target_rows=draw(st.sampled_from((4, 1_000)), label="target_rows"),
        max_spare_fragments=draw(st.sampled_from((0, 2)), label="max_spare_fragments"),
        retrain_after=draw(st.sampled_from((1, 64)), label="retrain_after"),
        key_index=draw(st.booleans(), label="key_index"),
    )
    maintain(table, policy, runner=_runner(draw))
    if not policy.compact:
        assert not needs(table, policy)


def clean_all(draw: Draw, table: LakeTable) -> None:
    """All that nobody needs who asks from now on, old versions of the base table too perhaps."""
    policy = CleanPolicy(grace_seconds=0, retain_versions=draw(st.sampled_from((None, 1)), label="retain"))

    def later() -> float:
        return time.time() + 2

    # What was taken out of a manifest goes when that manifest is the newest for a grace; and writers that
    # lost their regions may be flushing yet.
    for _ in range(4):
        report = clean(table, policy, delete=True, runner=_runner(draw), clock=later)
        if not report.garbage:
            return
    assert not find(table, policy, clock=later), report


def take_snapshot(draw: Draw, table: LakeTable) -> None:
    """Regions into the MemWAL index."""
    snapshot(table, SnapshotPolicy(0, draw(st.sampled_from((0, 1, 1_000)))))
    assert read_status(table).table == table.name


def keep(draw: Draw, table: LakeTable) -> None:
    """One look at all tables, with all that is due."""
    policies = Policies(
        merge=MergePolicy(min_generations=draw(st.integers(1, 3))),
        index=IndexPolicy(target_rows=4, max_spare_fragments=0),
        snapshot=SnapshotPolicy(0),
        clean=CleanPolicy(grace_seconds=0, retain_versions=1),
        run=RunPolicy(delete=True, clean_interval_seconds=0),
    )
    root, _, _ = table.uri.rpartition("/")
    done = Keeper(Lake.open(root), policies, runner=_runner(draw)).round()
    assert not done.failed


def _runner(draw: Draw) -> Threads:
    return Threads(draw(st.sampled_from((1, 2)), label="threads"))


MERGES: Mapping[str, Job] = {"all": merge_all, "a region": merge_a_region, "if due": merge_if_due}
"""Generations into the base table."""
UPKEEP: Mapping[str, Job] = {"index": maintain_indexes, "clean": clean_all, "snapshot": take_snapshot}
"""What leaves rows where they are."""
