"""SQL expressions over rows, evaluated by DataFusion.

Never on the caller's thread: it may be one of DataFusion's own, and DataFusion, entered a second time there,
ends the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar

import datafusion
import pyarrow as pa
from datafusion import DataFrame, Expr, col

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.transforms.determinism import find_unstable_parts, list_subexpressions

T = TypeVar("T")
_TABLE: Final = "rows"
_LONGEST_REASON: Final = 200


class _PerThread(threading.local):
    """The context of a thread: one partition, so that values come back in the order of the rows."""

    def __init__(self) -> None:
        self.context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))


_PER_THREAD = _PerThread()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="row-rules")


@dataclass(frozen=True, slots=True)
class ParsedExpression:
    """What is known of an expression before it is evaluated.

    Attributes:
        columns: columns that it names, sorted.
        unstable: parts that don't follow from the row alone, such as "random" and "a subquery".
    """

    columns: tuple[str, ...]
    unstable: tuple[str, ...]


def parse_expression(expression: str, schema: pa.Schema) -> ParsedExpression:
    """Parse an expression over columns.

    Raises:
        InvalidInputError: DataFusion rejects it.
    """

    def parse(frame: DataFrame) -> ParsedExpression:
        # By their own names alone, not by that of a table: the table has another one elsewhere.
        bare = frame.select(*(col(_quote(name)).alias(name) for name in schema.names))
        parsed = _parse(bare, expression)
        columns = {
            part.to_variant().name()
            for part in list_subexpressions(parsed)
            if part.variant_name() == "Column"
        }
        return ParsedExpression(tuple(sorted(columns)), find_unstable_parts(parsed))

    return _run(f"expression {expression!r}", schema.empty_table(), parse)


def evaluate_expressions(
    expressions: Sequence[str], rows: pa.Table, kind: pa.DataType | None = None, *, alone: bool = False
) -> list[pa.ChunkedArray]:
    """Evaluate expressions for every row.

    DataFusion may evaluate both sides of `n = 0 OR 10 / n > 1` for all rows of a batch, and fail for one for
    which it need not.

    Args:
        expressions: DataFusion SQL over the columns.
        rows: the rows; at least one column.
        kind: type to cast the values to; None for their own.
        alone: evaluate each row in a batch of its own, which takes far longer.

    Raises:
        InvalidInputError: DataFusion can't evaluate one of them.
    """

    def evaluate(frame: DataFrame) -> list[pa.ChunkedArray]:
        parsed = [_parse(frame, one) for one in expressions]
        cast = parsed if kind is None else [one.cast(kind) for one in parsed]
        named = [one.alias(f"value {place}") for place, one in enumerate(cast)]
        columns: list[pa.ChunkedArray] = frame.select(*named).to_arrow_table().columns
        return columns

    what = f"expression {', '.join(map(repr, expressions))}"
    return _run(what, rows, evaluate, 1 if alone else None)


def _parse(frame: DataFrame, expression: str) -> Expr:
    # In brackets, so that nothing in the text reaches beyond them.
    return frame.parse_sql_expr(f"({expression}\n)")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _run(what: str, rows: pa.Table, action: Callable[[DataFrame], T], most: int | None = None) -> T:
    def run() -> T:
        context = _PER_THREAD.context
        batches = rows.to_batches(most) or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        frame = context.create_dataframe([batches], name=_TABLE)
        try:
            return action(frame)
        finally:
            context.deregister_table(_TABLE)

    try:
        return _threads().submit(run).result()
    except Exception as error:
        msg = f"{what} can't be evaluated: {shorten_reason(error)}"
        raise InvalidInputError(msg) from error


def shorten_reason(error: Exception) -> str:
    """Return the line of an error's text that says what is wrong; DataFusion may print whole plans."""
    text = str(error).strip().removeprefix("DataFusion error: ").replace("\nValid fields", " Valid fields")
    text = text.rpartition("caused by\n")[2].removeprefix("Schema error: ").partition("\n")[0]
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
