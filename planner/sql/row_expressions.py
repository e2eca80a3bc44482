"""Refuses, and writes for DataFusion, SQL expressions over the columns of one row.

    (a, b) IN ((1, 2), (3, NULL))  ->  (a = 1 AND b = 2 OR a = 3 AND b = NULL)

Such expressions are those of constraints, defaults and access policies, and never part of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from sqlglot import exp

from memwal.errors import UnsupportedError
from planner.sql.forms import write_forms_of_expression
from planner.sql.forms.json_values import TYPED, WRITTEN
from planner.sql.text.limits import check_depth, check_literal_sizes
from planner.sql.text.tokens import tokenize
from planner.sql.tree.dialect import parse_query

_JSON: Final = re.compile("json", re.IGNORECASE)


def mend_expression(expression: str, *, reads_json: bool = False) -> str:
    """Return an expression in forms that DataFusion has.

    Args:
        expression: in SQL.
        reads_json: whether it may read and change JSON.

    Raises:
        LanceGatewayError: it has a clause that DataFusion misreads; it is too deep, or makes too large a
            value; or it can't be tokenized.
    """
    text = tokenize(expression)
    check_depth(text)
    check_literal_sizes(text)
    written = write_forms_of_expression(text).sql
    if _JSON.search(written):
        _refuse_json(written, TYPED if reads_json else WRITTEN, reads_json=reads_json)
    return written


def _refuse_json(expression: str, refused: Collection[str], *, reads_json: bool) -> None:
    root = parse_query(f"SELECT {expression}")
    for call in root.find_all(exp.Anonymous) if root is not None else ():
        if call.name.upper() in refused:
            what = "make JSON of values" if reads_json else "read and make JSON"
            where = "access policies" if reads_json else "constraints and defaults"
            msg = (
                f"{call.name}: functions that {what} are not supported in {where}: "
                "keep what these need in a column"
            )
            raise UnsupportedError(msg)
