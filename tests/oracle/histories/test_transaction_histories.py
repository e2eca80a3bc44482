"""Random histories with transactions, through two gateways among Lance's own writers, against the oracle."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase

from lance_gateway.planner.scans.settings import NO_SHORTCUTS, SessionSettings
from tests.oracle.machines.transaction_machine import TransactionHistories
from tests.oracle.replay.running import run_machine, soak
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.writer_process import WriterProcess


def run_histories(writers: WriterProcess, examples: int, steps: int, **more: object) -> None:
    class Run(TransactionHistories):
        process = writers

        def open_gateway(self, root: Path) -> EngineGateway:
            # Of two that begin, one reads and writes without any shortcut.
            settings = SessionSettings(shortcuts=NO_SHORTCUTS) if len(self.gateways) == 1 else None
            return EngineGateway(root, settings=settings)

    more.setdefault("phases", (Phase.explicit, Phase.generate))
    run_machine(Run, examples=examples, steps=steps, **more)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_histories_with_transactions_equal_the_replay(writers: WriterProcess):
    run_histories(writers, examples=3, steps=8, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_long_histories_with_transactions_equal_the_replay(writers: WriterProcess):
    soak(partial(run_histories, writers, phases=tuple(Phase)), histories=200, steps=30)
