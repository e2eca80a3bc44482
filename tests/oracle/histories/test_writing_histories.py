"""Random histories of tables that SQL writes, against the oracle."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase

from lance_gateway.planner.scans.settings import NO_SHORTCUTS, SessionSettings
from tests.oracle.machines.writing_machine import WritingHistories
from tests.oracle.replay.running import run_machine, soak
from tests.support.processes.gateways import EngineGateway, Gateway, start_served_gateway
from tests.support.processes.writer_process import WriterProcess


def run_histories(
    writers: WriterProcess, gateway: Callable[..., Gateway], examples: int, steps: int, **more: Any
) -> None:
    class Run(WritingHistories):
        process = writers

        def open_gateway(self, root: Path) -> Gateway:
            if gateway is EngineGateway and len(self.gateways) == 1:
                # Of two that begin, one writes without any shortcut.
                return gateway(root, settings=SessionSettings(shortcuts=NO_SHORTCUTS))
            return gateway(root)

    more.setdefault("phases", (Phase.explicit, Phase.generate))
    run_machine(Run, examples=examples, steps=steps, **more)


@pytest.mark.slow
def test_short_histories_of_sql_writes_equal_the_replay(writers: WriterProcess):
    run_histories(writers, EngineGateway, examples=3, steps=5, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.soak
def test_histories_of_sql_writes_equal_the_replay(writers: WriterProcess):
    run_histories(writers, EngineGateway, examples=2, steps=12, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.soak
def test_histories_written_over_adbc_equal_the_replay(writers: WriterProcess):
    run_histories(writers, start_served_gateway, examples=1, steps=12, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_long_histories_of_sql_writes_equal_the_replay(writers: WriterProcess):
    soak(partial(run_histories, writers, EngineGateway, phases=tuple(Phase)), histories=200, steps=40)
