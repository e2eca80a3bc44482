"""Random histories against the oracle: in seconds, in minutes, and for as long as one likes."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.oracle.executors import EngineExecutor, GatewayExecutor, TwoGatewaysExecutor
from tests.oracle.machine import Executor, Histories
from tests.oracle.readers import ManyReaders
from tests.support.writer_process import WriterProcess

SIZES = {"HISTORIES": "200", "STEPS": "60"}


def run_histories(
    writers: WriterProcess,
    executor: type[Executor],
    *,
    examples: int,
    steps: int,
    kind: type[Histories] = Histories,
    **more: object,
) -> None:
    class Run(kind):
        process = writers

        @staticmethod
        def open_executor(root: Path) -> Executor:
            return executor(root)

    run_machine(Run, examples=examples, steps=steps, **more)


def run_machine(machine: type[Histories], *, examples: int, steps: int, **more: object) -> None:
    """Run so many histories of at most so many steps."""
    if "seed" in more:
        seed(more.pop("seed"))(machine)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            **more,
        ),
    )


def test_short_histories_equal_the_replay(writers: WriterProcess):
    run_histories(
        writers,
        EngineExecutor,
        examples=10,
        steps=9,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
    )


def test_every_way_to_read_equals_the_replay_of_short_histories(writers: WriterProcess):
    run_histories(
        writers,
        EngineExecutor,
        examples=5,
        steps=7,
        kind=ManyReaders,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_histories_equal_the_replay(writers: WriterProcess):
    run_histories(writers, EngineExecutor, examples=12, steps=18, kind=ManyReaders, derandomize=True)


@pytest.mark.slow
def test_histories_read_over_adbc_equal_the_replay(writers: WriterProcess):
    run_histories(writers, GatewayExecutor, examples=2, steps=12, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_histories_read_through_two_gateways_by_turns_equal_the_replay(writers: WriterProcess):
    run_histories(writers, TwoGatewaysExecutor, examples=2, steps=12, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_long_histories_equal_the_replay(writers: WriterProcess):
    """``SOAK_HISTORIES`` and ``SOAK_STEPS`` set the size, ``SOAK_SEED`` repeats a run."""
    number = int(os.environ.get("SOAK_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
    histories, steps = (int(os.environ.get(f"SOAK_{name}", size)) for name, size in SIZES.items())
    try:
        run_histories(writers, EngineExecutor, examples=histories, steps=steps, kind=ManyReaders, seed=number)
    except BaseException as failure:
        failure.add_note(f"SOAK_SEED={number} repeats this run")
        raise
