"""Long INSERTs of constants, which one process reads and another one executes.

    INSERT INTO t VALUES (1, 'a'), (2, 'b'), ... ON CONFLICT (id) DO NOTHING
->  INSERT INTO t VALUES (1, 'a') ON CONFLICT (id) DO NOTHING, and columns with all rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from lance_gateway.planner.writes.dml.statement.text import WriteText
from lance_gateway.planner.writes.dml.statement.tree import locate
from lance_gateway.planner.writes.dml.values.values_rows import ValuesRows

__all__ = ["LongInsert", "shorten_values"]


@dataclass(frozen=True, slots=True)
class LongInsert:
    """An INSERT of constants.

    Attributes:
        sql: the statement in the native dialect.
        short: the statement with the first of its rows only.
        rows: all of its rows.
    """

    sql: str
    short: str
    rows: ValuesRows


def shorten_values(statement: WriteText, rows: Sequence[exp.Expr], values: ValuesRows) -> LongInsert | None:
    """Separate the rows of VALUES from the rest of their statement.

    Args:
        statement: an INSERT.
        rows: its rows of VALUES; none for a query.
        values: the rows, checked.

    Returns:
        None unless all values are constants.
    """
    if not rows or not rows[0].expressions or statement.parameter_count or not values.is_constant:
        return None
    end_of_first, end = (locate(row).stop for row in (rows[0], rows[-1]))
    return LongInsert(statement.sql, statement.sql[:end_of_first] + statement.sql[end:], values)
