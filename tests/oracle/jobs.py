"""The pipeline's jobs as steps of histories, with drawn policies; none of them may change any answer."""

from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from pipeline.lake import LakeTable
from pipeline.merging import MergePolicy, merge
from pipeline.runners import Threads
from tests.oracle.predicates import Draw

Job = Callable[[Draw, LakeTable], object]


def merge_all(draw: Draw, table: LakeTable) -> None:
    """All that is pending, in commits of many regions or of few."""
    policy = MergePolicy(batch_rows=draw(st.sampled_from((1, 4, 1_000)), label="batch_rows"))
    merge(table, policy, runner=_runner(draw))


def _runner(draw: Draw) -> Threads:
    return Threads(draw(st.sampled_from((1, 2)), label="threads"))


MERGES: Mapping[str, Job] = {"merge": merge_all}
"""Generations into the base table."""
