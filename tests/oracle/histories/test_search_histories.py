"""Random histories of searched tables against brute force and a freshly indexed table."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase

from tests.oracle.answers.hybrid_answers import found_by_both
from tests.oracle.answers.predicates import Draw
from tests.oracle.answers.searched import Question, Searched
from tests.oracle.answers.text_answers import found_text
from tests.oracle.answers.vector_answers import Recall, nearest, ordered_by_distance
from tests.oracle.machines.search_machine import SearchHistories
from tests.oracle.replay.executors import EngineExecutor, Executor, GatewayExecutor, TwoGatewaysExecutor
from tests.oracle.replay.running import run_machine, soak
from tests.support.processes.writer_process import WriterProcess

FAMILIES: dict[str, tuple[Callable[[Draw, Searched, Recall], Question], ...]] = {
    "vectors": (nearest, nearest, ordered_by_distance),
    "texts": (found_text,),
    "both": (found_by_both,),
}


def run_histories(
    writers: WriterProcess,
    executor: type[Executor],
    *families: str,
    examples: int,
    steps: int,
    kind: type[SearchHistories] = SearchHistories,
    phases: tuple[Phase, ...] = (Phase.explicit, Phase.generate),
    **more: Any,
) -> None:
    """Run histories, and see how much the approximate searches in them found.

    A history that fails is shown as it is: making it shorter takes longer than all others together.
    """

    class Run(kind):
        process = writers
        recall = Recall()
        questions = tuple(question for family in families or FAMILIES for question in FAMILIES[family])

        @staticmethod
        def open_executor(root: Path) -> Executor:
            return executor(root)

    run_machine(Run, examples=examples, steps=steps, phases=phases, **more)
    assert float(Run.recall) >= 0.95, f"{Run.recall.found} of {Run.recall.wanted} rows were found"


@pytest.mark.slow
def test_short_histories_are_searched_like_the_replay(writers: WriterProcess):
    run_histories(writers, EngineExecutor, examples=3, steps=5, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", FAMILIES)
def test_histories_are_searched_like_the_replay(writers: WriterProcess, family: str):
    run_histories(writers, EngineExecutor, family, examples=2, steps=12, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "executor", [pytest.param(GatewayExecutor, marks=pytest.mark.soak), TwoGatewaysExecutor]
)
def test_histories_are_searched_over_the_wire(writers: WriterProcess, executor: type[Executor]):
    run_histories(writers, executor, examples=2, steps=8, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_long_histories_are_searched_like_the_replay(writers: WriterProcess):
    soak(partial(run_histories, writers, EngineExecutor, phases=tuple(Phase)), histories=100, steps=40)
