"""The pipeline's jobs as steps of histories, with drawn policies; none of them may change any answer."""

from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from memwal.manifest import list_regions
from pipeline.lake import LakeTable
from pipeline.merging import MergePolicy, merge
from pipeline.runners import Threads
from tests.oracle.predicates import Draw

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


def _runner(draw: Draw) -> Threads:
    return Threads(draw(st.sampled_from((1, 2)), label="threads"))


MERGES: Mapping[str, Job] = {"all": merge_all, "a region": merge_a_region, "if due": merge_if_due}
"""Generations into the base table."""
