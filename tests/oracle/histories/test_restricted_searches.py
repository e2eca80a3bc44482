"""Random histories, searched by principals from whom random policies keep rows and values.

What they may not see does not count for them: not among the nearest, and not in the statistics of words.
"""

import pytest

from tests.oracle.histories.test_restricted_histories import RestrictedHistories
from tests.oracle.histories.test_search_histories import FAMILIES, run_histories
from tests.oracle.machines.search_machine import SearchHistories
from tests.oracle.replay.executors import EngineExecutor
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample


class RestrictedSearches(RestrictedHistories, SearchHistories):
    """Draws a policy before each search."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", sample(FAMILIES, 1))
def test_searches_show_what_the_policy_says(writers: WriterProcess, family: str):
    run_histories(
        writers, EngineExecutor, family, examples=2, steps=10, kind=RestrictedSearches, derandomize=True
    )
