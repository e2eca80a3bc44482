"""Times that are read from texts have the type that they are said to have."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import cast_to
from planner.sql.rules.tree import Tree, find_family, for_texts

_UNITS: Final = {
    "TO_TIMESTAMP": "ns",
    "TO_TIMESTAMP_SECONDS": "s",
    "TO_TIMESTAMP_MILLIS": "ms",
    "TO_TIMESTAMP_MICROS": "us",
    "TO_TIMESTAMP_NANOS": "ns",
}


@for_texts(r"\bto_timestamp")
def read_texts(tree: Tree) -> None:
    """Give times that are read from texts their type.

    These functions of DataFusion 55 are said to give times of the session's time zone, and give those of
    texts none: a plan over rows then fails. The optimizer leaves casts out of comparisons that change
    nothing, as it believes, but for nullif(). Constants are right.

        SELECT to_timestamp_seconds(s) AS x FROM t
    ->  SELECT nullif(arrow_cast(arrow_cast(to_timestamp_seconds(s), 'Timestamp(Second, None)'),
            'Timestamp(Second, Some("+00:00"))'), NULL) AS x FROM t
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        unit = _UNITS.get(call.name.upper())
        is_constant = len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Literal)
        if unit is None or not call.expressions or is_constant:
            continue
        kind = tree.find_type(call.expressions[0])
        if kind is None or find_family(kind) == "text":
            typed = cast_to(cast_to(call.copy(), pa.timestamp(unit)), pa.timestamp(unit, "+00:00"))
            tree.replace(call, exp.Anonymous(this="nullif", expressions=[typed, exp.null()]))
