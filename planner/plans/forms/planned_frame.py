"""Plans with names of columns that clients see, which may be the same."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from datafusion import DataFrame
from datafusion.plan import LogicalPlan

from lance_gateway.planner.binding.bound_statement import StatementKind
from lance_gateway.planner.plans.forms.repeated_names import make_names_unique

_SHARED_NAME: Final = re.compile(r"unique expression names|duplicate|ambiguous|field name")


class PlannedFrame(DataFrame):
    """A planned statement, which is optimised once.

    Attributes:
        mixing: rules of the optimizer that would mix joins up, and are left out; None if not looked for.
        is_checked: whether the same plan was found before to be answered rightly.
        text: what was planned, with unique names of outputs.
        shown: name of a column -> the name that clients see, of columns that share theirs.
    """

    mixing: tuple[str, ...] | None = None
    is_checked: bool = False
    _optimized: LogicalPlan | None = None
    text: str = ""
    shown: Mapping[str, str] = MappingProxyType({})

    def optimized_logical_plan(self) -> LogicalPlan:
        """Return the optimised plan."""
        if self._optimized is None:
            self._optimized = super().optimized_logical_plan()
        return self._optimized

    def show_names(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the result with the names that clients see."""
        if not self.shown:
            return schema
        return pa.schema([field.with_name(self.shown.get(field.name, field.name)) for field in schema])


def number_names(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns have different names, as DataFusion gives them to those of joins."""
    counts: Counter[str] = Counter()
    fields = []
    for field in schema:
        fields.append(field.with_name(f"{field.name}:{counts[field.name]}") if counts[field.name] else field)
        counts[field.name] += 1
    return pa.schema(fields)


def plan_unique(
    kind: StatementKind,
    replan: Callable[[str, str], DataFrame],
    text: str,
    written: str,
) -> PlannedFrame:
    """Plan a statement, and if it is refused, with unique names of its outputs."""
    try:
        planned = replan(text, written)
        frame = planned if isinstance(planned, PlannedFrame) else PlannedFrame(planned.df)
    except Exception as error:
        # The rows of DESCRIBE would have the unique names.
        if kind is StatementKind.DESCRIBE or not _SHARED_NAME.search(str(error)):
            raise

        def find_schema(part: str) -> pa.Schema:
            return replan(part, part).schema()

        unique = make_names_unique(text, find_schema)
        unique_written = unique if text == written else make_names_unique(written, find_schema)
        if unique is None or unique_written is None:
            raise
        renamed = None
        # The first error speaks of the text as it was written.
        with contextlib.suppress(Exception):
            renamed = PlannedFrame(replan(unique.sql, unique_written.sql).df)
        if renamed is None:
            raise
        renamed.text, renamed.shown = unique.sql, unique_written.find_shown(renamed.schema().names)
        return renamed
    frame.text = text
    return frame
