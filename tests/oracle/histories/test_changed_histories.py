"""Changes of tables with random histories."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase

from tests.oracle.machines.changes_machine import ChangedHistories
from tests.oracle.replay.executors import EngineExecutor, Executor
from tests.oracle.replay.running import run_machine, soak
from tests.support.processes.writer_process import WriterProcess


def run_histories(writers: WriterProcess, **options: object) -> None:
    class Run(ChangedHistories):
        process = writers

        @staticmethod
        def open_executor(root: Path) -> Executor:
            return EngineExecutor(root)

    run_machine(Run, **options)
    assert Run.compared


@pytest.mark.slow
def test_changes_lead_from_noted_states_to_the_newest(writers: WriterProcess) -> None:
    run_histories(writers, examples=3, steps=12, derandomize=True, phases=(Phase.explicit, Phase.generate))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_changes_of_long_histories(writers: WriterProcess) -> None:
    soak(partial(run_histories, writers, phases=tuple(Phase)), histories=200, steps=40)
