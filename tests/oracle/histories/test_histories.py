"""Random histories against the oracle: in seconds, in minutes, and for as long as one likes."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase

from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA
from tests.oracle.machines.machine import Histories
from tests.oracle.replay.executors import (
    DistantExecutor,
    EngineExecutor,
    Executor,
    GatewayExecutor,
    TwoGatewaysExecutor,
)
from tests.oracle.replay.readers import ManyReaders
from tests.oracle.replay.running import run_machine, soak
from tests.support.processes.writer_process import WriterProcess


def run_histories(
    writers: WriterProcess,
    executor: type[Executor],
    *,
    examples: int,
    steps: int,
    kind: type[Histories] = Histories,
    of_schema: str = MAIN_SCHEMA,
    **more: object,
) -> None:
    class Run(kind):
        process = writers
        schema = of_schema

        @staticmethod
        def open_executor(root: Path) -> Executor:
            return executor(root)

    run_machine(Run, examples=examples, steps=steps, **more)


@pytest.mark.slow
def test_short_histories_equal_the_replay(writers: WriterProcess):
    run_histories(
        writers,
        EngineExecutor,
        examples=3,
        steps=8,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
    )


@pytest.mark.slow
def test_histories_that_are_read_from_afar_equal_the_replay(writers: WriterProcess):
    run_histories(writers, DistantExecutor, examples=5, steps=16, derandomize=True)


@pytest.mark.slow
def test_every_way_to_read_equals_the_replay_of_short_histories(writers: WriterProcess):
    run_histories(
        writers,
        EngineExecutor,
        examples=3,
        steps=6,
        kind=ManyReaders,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_histories_equal_the_replay(writers: WriterProcess):
    run_histories(writers, EngineExecutor, examples=5, steps=16, kind=ManyReaders, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_histories_read_over_adbc_equal_the_replay(writers: WriterProcess):
    run_histories(writers, GatewayExecutor, examples=20, steps=30)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.soak
def test_histories_of_a_schema_read_through_two_gateways_by_turns_equal_the_replay(writers: WriterProcess):
    run_histories(writers, TwoGatewaysExecutor, examples=2, steps=8, of_schema="lake", derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("executor", [EngineExecutor, DistantExecutor])
def test_long_histories_equal_the_replay(writers: WriterProcess, executor: type[Executor]):
    soak(partial(run_histories, writers, executor, kind=ManyReaders), histories=200, steps=60)
