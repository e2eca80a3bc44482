"""Runs state machines: so many histories, or as many as the environment says."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_machine(machine: type[RuleBasedStateMachine], *, examples: int, steps: int, **more: object) -> None:
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


def soak(run: Callable[..., None], *, histories: int, steps: int) -> None:
    """Run long histories: ``SOAK_HISTORIES`` and ``SOAK_STEPS`` set the size, ``SOAK_SEED`` repeats a run."""
    number = int(os.environ.get("SOAK_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
    examples = int(os.environ.get("SOAK_HISTORIES", histories))
    try:
        run(examples=examples, steps=int(os.environ.get("SOAK_STEPS", steps)), seed=number)
    except BaseException as failure:
        failure.add_note(f"SOAK_SEED={number} repeats this run")
        raise
