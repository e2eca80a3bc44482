"""The steps of statements that follow a table: which they are, and who runs them."""

from collections.abc import Generator

import pyarrow as pa
import pytest

from lance_gateway.gateway.statements.following import SharedSteps
from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.planner.binding.changes.followed import read_followed_changes

SMALL, LARGE = (pa.record_batch({"v": pa.array(range(size), pa.int64())}) for size in (3, 200_000))


@pytest.mark.parametrize(
    ("batches", "runs"), [([SMALL, SMALL], 1), ([], 1), ([LARGE, SMALL], 3)], ids=["small", "empty", "large"]
)
def test_small_results_are_shared_and_large_ones_are_not(batches: list[pa.RecordBatch], runs: int) -> None:
    steps, started = SharedSteps(), []

    def run() -> Generator[pa.RecordBatch]:
        started.append(1)
        yield from batches

    for _ in range(3):
        assert list(steps.read("step", run, lambda: None)) == batches
    assert len(started) == runs


def test_who_waits_for_a_step_that_fails_runs_it() -> None:
    steps = SharedSteps()

    def fail() -> Generator[pa.RecordBatch]:
        raise UnavailableError("it was stopped")
        yield

    with pytest.raises(UnavailableError):
        list(steps.read("step", fail, lambda: None))
    assert list(steps.read("step", lambda: (one for one in [SMALL]), lambda: None)) == [SMALL]


def test_who_waits_for_a_step_may_be_stopped() -> None:
    steps = SharedSteps()

    def stop() -> None:
        raise UnavailableError("it was stopped")

    def run() -> Generator[pa.RecordBatch]:
        with pytest.raises(UnavailableError):  # Another follower comes while this one runs the step.
            list(steps.read("step", run, stop))
        yield SMALL

    assert list(steps.read("step", run, stop)) == [SMALL]


def test_a_step_has_the_conditions_and_columns_of_its_statement() -> None:
    followed = read_followed_changes(
        "select a, (b) from lance_changes('it''s', follow => TRUE, since => now() - INTERVAL '1 hour') c "
        "where a > 1"
    )
    assert followed is not None
    assert followed.since == "now() - INTERVAL '1 hour'"
    assert followed.write_step("3", "lance-changes:1:Cg") == (
        "select a, (b) from lance_changes('it''s', since => 3, until => 'lance-changes:1:Cg') c where a > 1"
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'follow => true' FROM t",
        "SELECT * FROM lance_changes('t', since => 1)",
        "SELECT * FROM lance_changes('t', since => 1, follow => false) -- follow => true",
        "SELECT * FROM (lance_changes('t', follow => true",
    ],
)
def test_other_statements_are_left_to_the_planner(text: str) -> None:
    assert read_followed_changes(text) is None


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT * FROM lance_changes('t', follow => true)", InvalidInputError, "needs since"),
        ("SELECT * FROM lance_changes('t', since => 1, follow => true) c(a)", UnsupportedError, "has no end"),
    ],
)
def test_calls_that_can_not_follow(text: str, error: type[LanceGatewayError], message: str) -> None:
    with pytest.raises(error, match=message):
        read_followed_changes(text)
