"""Random histories of tables that are restored to former states, against the oracle."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase

from tests.oracle.machines.restore_machine import RestoreHistories
from tests.oracle.replay.running import run_machine, soak
from tests.support.processes.gateways import EngineGateway, Gateway
from tests.support.processes.writer_process import WriterProcess


def run_histories(writers: WriterProcess, examples: int, steps: int, **more: Any) -> None:
    class Run(RestoreHistories):
        process = writers

        def open_gateway(self, root: Path) -> Gateway:
            return EngineGateway(root)

    more.setdefault("phases", (Phase.explicit, Phase.generate))
    run_machine(Run, examples=examples, steps=steps, **more)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_histories_of_restored_tables_equal_the_replay(writers: WriterProcess):
    run_histories(writers, examples=2, steps=12, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_long_histories_of_restored_tables_equal_the_replay(writers: WriterProcess):
    soak(partial(run_histories, writers, phases=tuple(Phase)), histories=200, steps=40)
