"""What running plans hold, as their operators count it."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext

from lance_gateway.planner.bridge import memory_use
from lance_gateway.planner.bridge.memory_use import MemoryUse, measure_plan
from lance_gateway.planner.bridge.run_control import RunControl, stream_batches

ROWS = 200_000


BATCH_ROWS = 8192
SIZE = ROWS * 52
"""Bytes of all rows."""


def make_batches() -> list[pa.RecordBatch]:
    """Rows in batches with memory of their own: DataFusion counts all that a slice keeps alive."""
    return [
        pa.record_batch(
            {"id": range(start, end), "text": [f"{i * 7919 % ROWS:>40}" for i in range(start, end)]}
        )
        for start, end in ((i, min(i + BATCH_ROWS, ROWS)) for i in range(0, ROWS, BATCH_ROWS))
    ]


@pytest.fixture
def context() -> SessionContext:
    context = SessionContext(SessionConfig().with_target_partitions(1))
    context.register_record_batches("numbers", [make_batches()])
    return context


def begin(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Read the first batch, behind which aggregates, builds and sorts are complete."""
    batches = stream_batches(frame, RunControl())
    next(batches)
    return batches


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT text, count(*) FROM numbers GROUP BY text",
        "SELECT a.text FROM numbers a JOIN numbers b ON a.text = b.text",
        "SELECT id, text FROM (SELECT id, concat(text, 'x') AS text FROM numbers) ORDER BY text",
    ],
)
def test_what_an_operator_holds_is_of_the_size_of_its_rows(context: SessionContext, statement: str) -> None:
    frame = context.sql(statement)
    batches = begin(frame)
    held = measure_plan(frame.execution_plan()).held_bytes
    assert SIZE / 2 < held < SIZE * 4
    del batches


def test_a_sort_that_needs_few_rows_holds_nothing(context: SessionContext) -> None:
    frame = context.sql("SELECT id, text FROM numbers ORDER BY text LIMIT 5")
    assert len(list(begin(frame))) == 0
    assert measure_plan(frame.execution_plan()) == MemoryUse()


def test_what_was_spilled_is_no_longer_held() -> None:
    limit = 24 << 20
    runtime = RuntimeEnvBuilder().with_fair_spill_pool(limit).with_disk_manager_os()
    context = SessionContext(SessionConfig().with_target_partitions(1), runtime)
    context.register_record_batches("numbers", [make_batches()])
    made = "SELECT id, concat(text, 'x') AS text FROM numbers"
    frame = context.sql(f"SELECT id, text FROM ({made}) ORDER BY text")
    batches = begin(frame)
    use = measure_plan(frame.execution_plan())
    assert use.spilled_bytes > SIZE / 4
    assert use.held_bytes < SIZE - use.spilled_bytes / 2
    del batches


def test_the_most_is_kept_when_a_plan_has_ended(
    context: SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_use, "MEASURED_SECONDS", 0.0)
    control = RunControl()
    assert control.memory.measure() is None
    for _ in stream_batches(context.sql("SELECT text, count(*) FROM numbers GROUP BY text"), control):
        pass
    most = control.memory.measure()
    assert most is not None
    for _ in stream_batches(context.sql("SELECT id % 2, count(*) FROM numbers GROUP BY 1"), control):
        pass
    assert control.memory.measure() == most
    assert most.held_bytes > SIZE / 2
