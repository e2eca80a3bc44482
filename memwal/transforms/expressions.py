"""DataFusion SQL expressions over the columns `col0`, `col1`, ... as region fields."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

import datafusion
import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.transforms.determinism import find_unstable_parts

_LONGEST_REASON: Final = 200
_TABLE: Final = "columns"
_DEEPEST: Final = 100
"""More levels of brackets, also in the names of types, could overflow the stack of DataFusion's parsers."""


def evaluate_expression(
    expression: str, columns: Sequence[pa.Array], rows: int, result_type: pa.DataType | None = None
) -> pa.Array:
    """Evaluate an expression for every row.

    Args:
        expression: DataFusion SQL in which `col0`, `col1`, ... stand for the columns.
        columns: arrays of `rows` values each; an array of type null where the table lacks the column.
        rows: number of rows, also when there are no columns.
        result_type: type to cast the values to; None for the expression's own.

    Raises:
        UnsupportedError: the expression does not depend on its row alone.
        InvalidInputError: DataFusion rejects the expression, or its values do not fit the result type.
    """
    if _count_levels(expression) > _DEEPEST:
        start = expression[:_LONGEST_REASON]
        msg = f"Region expression {start!r} cannot be evaluated: more than {_DEEPEST} levels of brackets"
        raise InvalidInputError(msg)
    names = [f"col{at}" for at in range(len(columns))]
    batch = pa.record_batch([*columns, pa.nulls(rows, pa.bool_())], [*names, "_row"])
    try:
        # Never on the caller's thread: it may be one of DataFusion's own, and DataFusion, entered a second
        # time there, ends the process.
        values = _thread().submit(_evaluate, expression, batch).result()
        return values if result_type is None else values.cast(result_type)
    except UnsupportedError:
        raise
    except Exception as error:
        msg = f"Region expression {expression!r} cannot be evaluated: {_first_words(error)}"
        raise InvalidInputError(msg) from error


def _evaluate(expression: str, batch: pa.RecordBatch) -> pa.Array:
    frame = _context().create_dataframe([[batch]], name=_TABLE)
    try:
        parsed = frame.parse_sql_expr(expression)
        unstable = find_unstable_parts(parsed)
        if unstable:
            used = ", ".join(unstable)
            rule = "its value must follow from the row alone"
            msg = f"Region expression {expression!r} uses {used}, but {rule}"
            raise UnsupportedError(msg)
        values = frame.select(parsed).to_arrow_table().column(0).combine_chunks()
    finally:
        _context().deregister_table(_TABLE)
    return values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)


def _count_levels(expression: str) -> int:
    depth = deepest = 0
    for mark in expression:
        depth += (mark in "([{<") - (mark in ")]}>")
        deepest = max(deepest, depth)
    return deepest


def _first_words(error: Exception) -> str:
    # DataFusion may print whole plans.
    text = str(error).strip().partition("\n")[0]
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="region-expressions")


@cache
def _context() -> datafusion.SessionContext:
    # One partition: rows come back in the order in which they were given.
    return datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
