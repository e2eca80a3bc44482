"""Random histories, seen by principals from whom random policies keep rows and values."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext
from hypothesis import Phase
from hypothesis import strategies as st

from lance_gateway.planner.access.rights import TableAccess
from tests.oracle.answers import queries
from tests.oracle.answers.predicates import predicate
from tests.oracle.machines.machine import Histories
from tests.oracle.replay.executors import EngineExecutor
from tests.oracle.replay.running import run_machine
from tests.support.judging.principals import Principal
from tests.support.processes.writer_process import WriterProcess


class RestrictedHistories(Histories):
    """Draws a policy before each check."""

    def shown(self, data: Any, shape: queries.Table, rows: pa.Table) -> pa.Table:
        """What the policy shows, as DataFusion alone finds it."""
        access = _access(data, shape)
        known = self.executor.access.tables if isinstance(self.executor.access, Principal) else {}
        self.executor.access = Principal({**known, shape.name: access})
        context = SessionContext(
            SessionConfig().set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
        )
        nothing = pa.RecordBatch.from_pylist([], schema=rows.schema)
        context.register_record_batches("everything", [rows.to_batches() or [nothing]])
        frame = context.table("everything")
        if access.row_filter is not None:
            frame = frame.filter(frame.parse_sql_expr(access.row_filter))
        columns = [
            frame.parse_sql_expr(access.masks.get(field.name, f'"{field.name}"'))
            .cast(field.type)
            .alias(field.name)
            for field in rows.schema
        ]
        return frame.select(*columns).to_arrow_table().cast(rows.schema)


def _access(data: Any, shape: queries.Table) -> TableAccess:
    row_filter = predicate(data.draw, shape.columns) if data.draw(st.integers(0, 3)) else None
    masks = {}
    for column in shape.columns:
        if column.name not in shape.key and not data.draw(st.integers(0, 3)):
            shown = predicate(data.draw, shape.columns)
            mask = f'CASE WHEN {shown} THEN "{column.name}" END'
            masks[column.name] = data.draw(st.sampled_from((mask, "NULL")))
    return TableAccess(row_filter, masks)


def run(writers: WriterProcess, examples: int, steps: int, **more: Any) -> None:
    class Run(RestrictedHistories):
        process = writers

        @staticmethod
        def open_executor(root: Path) -> EngineExecutor:
            return EngineExecutor(root)

    run_machine(Run, examples=examples, steps=steps, derandomize=True, **more)


@pytest.mark.slow
def test_short_histories_show_what_the_policy_says(writers: WriterProcess):
    run(writers, 3, 6, phases=(Phase.explicit, Phase.generate))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_histories_show_what_the_policy_says(writers: WriterProcess):
    run(writers, 3, 14)
