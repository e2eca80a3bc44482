"""Times of day have microseconds, as columns do."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import cast_to
from planner.sql.rules.tree import Tree, for_texts

_FINE: Final = re.compile(r"\.\d{7}")
"""Fractions that microseconds do not have."""


@for_texts(r"\btime\b")
def times_of_day(tree: Tree) -> None:
    """Give times of day the unit of columns, since DataFusion compares no others with them.

        SELECT id FROM t WHERE tm > TIME '10:30'
    ->  SELECT id FROM t WHERE tm > arrow_cast('10:30', 'Time64(Microsecond)')
    """
    for cast in list(tree.root.find_all(exp.Cast))[::-1]:
        is_time = cast.to.this is exp.DType.TIME and not cast.to.expressions
        is_fine = isinstance(cast.this, exp.Literal) and _FINE.search(cast.this.name)
        if is_time and not is_fine and not isinstance(cast, exp.TryCast):
            tree.replace(cast, cast_to(cast.this.copy(), pa.time64("us")))
