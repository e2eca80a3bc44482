"""ON CONFLICT: what becomes of rows whose key is in the table already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from memwal.writing import WriteReceipt
from planner.control import RunControl
from planner.dml.insert_text import InsertText, OnConflict
from planner.dml.rewriting import Outcome
from planner.dml.statement import WriteText
from planner.dml.target import Target
from planner.settings import SessionSettings

if TYPE_CHECKING:
    from planner.access import Access
    from planner.engine import QueryEngine


@dataclass(frozen=True, eq=False)
class Conflict:
    """How keys are looked up before rows are written."""

    action: OnConflict

    @property
    def looks_first(self) -> bool:
        return self.action is not OnConflict.REPLACE

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        return {}

    def written(
        self, rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl
    ) -> tuple[Outcome, WriteReceipt]:
        raise NotImplementedError


def conflict(
    engine: QueryEngine,
    statement: WriteText,
    text: InsertText,
    target: Target,
    settings: SessionSettings,
    access: Access,
) -> Conflict:
    return Conflict(text.conflict.action)
