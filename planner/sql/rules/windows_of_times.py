"""Windows sorted by times of day, and by bytes."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.dialect import parse_expression
from planner.sql.rules.tree import Tree, for_texts

_FIXED = (None, "UNBOUNDED", "CURRENT ROW")
"""Bounds of a frame that are no values."""


@for_texts(r"\bover\b", r"\border\b")
def windows_of_times(tree: Tree) -> None:
    """Sort a window by a number in the place of a time, and by a text in the place of bytes.

    Without a frame, a window ends with the rows that are equal to the current one, and DataFusion finds these
    for numbers and texts, but not for times and bytes.

        SELECT count(*) OVER (ORDER BY tm) FROM t
    ->  SELECT count(*) OVER (ORDER BY arrow_cast(tm, 'Int64')) FROM t
    """
    for window in tree.root.find_all(exp.Window):
        order, frame = window.args.get("order"), window.args.get("spec")
        if order is None or (frame is not None and not _is_of_peers(frame)):
            continue
        for ordered in order.expressions:
            kind = tree.find_type(ordered.this)
            if kind is None:
                continue
            if pa.types.is_time(kind) or pa.types.is_duration(kind):
                shown = parse_expression("arrow_cast(x, 'Int64')")
            elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                shown = parse_expression("encode(x, 'hex')")
            else:
                continue
            (column,) = shown.find_all(exp.Column)
            column.replace(ordered.this.copy())
            tree.replace(ordered.this, shown)


def _is_of_peers(frame: exp.Expr) -> bool:
    """Return whether a frame is of RANGE, and bounded by no values."""
    return frame.args.get("kind") == "RANGE" and all(
        frame.args.get(end) in _FIXED for end in ("start", "end")
    )
