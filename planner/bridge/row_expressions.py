"""Rewrites expressions over one row for DataFusion, and evaluates them over batches of rows.

DataFusion is never called on the thread of the caller, which may be one of DataFusion's own: that would end
the process.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, reduce
from operator import and_
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from datafusion import DataFrame, Expr, SessionConfig, SessionContext, col
from sqlglot import exp

from lance_gateway.memwal.errors import LanceGatewayError, UnsupportedError
from lance_gateway.planner.bridge.json.functions import JSON_FUNCTIONS, WRITERS, register_json
from lance_gateway.planner.bridge.plan_reading import Expression
from lance_gateway.planner.bridge.run_control import raise_panics
from lance_gateway.planner.sql.forms import write_forms_of_expression
from lance_gateway.planner.sql.forms.json_values import TYPED, WRITTEN
from lance_gateway.planner.sql.rules import apply_rules
from lance_gateway.planner.sql.text.limits import check_depth, check_literal_sizes
from lance_gateway.planner.sql.text.tokens import quote, tokenize
from lance_gateway.planner.sql.tree.dialect import parse_query

_TABLE = "rows"
_JSON: Final = re.compile("json", re.IGNORECASE)
ROW_FUNCTIONS = JSON_FUNCTIONS - WRITERS
"""Functions that policies may call besides DataFusion's; they follow from the row alone."""

T = TypeVar("T")


def run_on_own_thread(step: Callable[[], T]) -> T:
    """Run one step of DataFusion on a thread that is not DataFusion's."""
    return _threads().submit(step).result()


@dataclass
class _Calls:
    """Calls of functions, whose error DataFusion tells as well."""

    failure: LanceGatewayError | None = None


def policy_context() -> SessionContext:
    """Make a context in which rows keep their order, text its type, and JSON is read."""
    config = SessionConfig().with_target_partitions(1).set("datafusion.execution.time_zone", "+00:00")
    context = SessionContext(config.set("datafusion.sql_parser.map_string_types_to_utf8view", "false"))
    register_row_functions(context)
    return context


def register_row_functions(context: SessionContext) -> None:
    """Register the functions that read JSON, for expressions of policies."""
    register_json(context, ROW_FUNCTIONS, _Calls())


def mark_uuids(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Return a schema with the type of UUIDs for columns of texts that are UUIDs, and for no others."""
    stored = [one.with_type(pa.binary(16)) if one.type == pa.uuid() else one for one in schema]
    return pa.schema([one.with_type(pa.uuid()) if one.name in names else one for one in stored])


def rewrite_expression(
    expression: str, schema: pa.Schema, uuids: Collection[str] = (), *, reads_json: bool = False
) -> str:
    """Rewrite an expression over the columns of one row by the forms and rules for queries.

    Args:
        expression: of a constraint, a default or an access policy, in SQL.
        schema: the columns.
        uuids: columns of texts that are UUIDs.
        reads_json: whether it may read JSON.

    Raises:
        LanceGatewayError: it has a clause that DataFusion misreads; it is too deep, or makes too large a
            value; it makes JSON, or reads it and must not; or it can't be tokenized.
    """
    text = tokenize(expression)
    check_depth(text)
    check_literal_sizes(text)
    written = write_forms_of_expression(text).sql
    _refuse_json(written, TYPED if reads_json else WRITTEN, reads_json=reads_json)
    head, tail = "SELECT (", f") FROM {_TABLE}"
    query = f"{head}{written}\n{tail}"

    def rewrite() -> str:
        context = policy_context()
        context.register_record_batches(_TABLE, [[pa.RecordBatch.from_pylist([], schema)]])
        columns = {_TABLE: mark_uuids(schema, uuids)}
        return apply_rules(query, columns, {}, lambda sql: context.sql(sql).schema()).text

    rewritten = run_on_own_thread(rewrite)
    if rewritten == query:
        return written
    if rewritten.startswith(head):
        return rewritten.removeprefix(head).removesuffix(tail)
    return rewritten.removeprefix("SELECT ").removesuffix(tail.removeprefix(")"))


def _refuse_json(expression: str, refused: Collection[str], *, reads_json: bool) -> None:
    root = parse_query(f"SELECT {expression}") if _JSON.search(expression) else None
    for call in root.find_all(exp.Anonymous) if root is not None else ():
        if call.name.upper() in refused:
            what = "make JSON of values" if reads_json else "read and make JSON"
            where = "access policies" if reads_json else "constraints and defaults"
            msg = (
                f"{call.name}: functions that {what} are not supported in {where}: "
                "keep what these need in a column"
            )
            raise UnsupportedError(msg)


def evaluate(
    batch: pa.RecordBatch, condition: str | None, expressions: Mapping[str, tuple[str, pa.DataType]]
) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
    """Evaluate a condition over rows, and expressions over those that match it.

    Args:
        batch: the rows.
        condition: keeps rows for which it is true; None keeps all.
        expressions: name -> SQL expression, and the type to which its values are cast.

    Returns:
        The matching rows, and per name one value for each of them.

    Raises:
        Exception: an error of DataFusion; it may quote values of the rows.
    """
    if not batch.num_rows:
        return batch, {name: pa.array([], kind) for name, (_, kind) in expressions.items()}
    result = run_on_own_thread(lambda: _evaluate_numbered(batch, condition, expressions))
    rows = batch if condition is None else batch.take(result.column(0).combine_chunks())
    # DataFusion makes some NULLs by masking values that stay in the buffer (NULLIF, CASE without ELSE), and
    # clients would receive them: a copy does not have them.
    all_rows = pa.array(np.arange(rows.num_rows))
    arrays = {
        name: result.column(place).combine_chunks().cast(kind).take(all_rows)
        for place, (name, (_, kind)) in enumerate(expressions.items(), start=1)
    }
    return rows, arrays


def match_rows(batch: pa.RecordBatch, condition: str) -> pa.BooleanArray:
    """Return which rows match a condition: one boolean per row, without NULLs.

    Raises:
        Exception: an error of DataFusion; it may quote values of the rows.
    """
    mask = np.zeros(batch.num_rows, dtype=np.bool_)
    if batch.num_rows:
        rows = run_on_own_thread(lambda: _evaluate_numbered(batch, condition, {}))
        mask[rows.column(0).to_numpy()] = True
    return pa.array(mask)


def _evaluate_numbered(
    batch: pa.RecordBatch, condition: str | None, expressions: Mapping[str, tuple[str, pa.DataType]]
) -> pa.Table:
    """Return the numbers of the matching rows, and the values of the expressions for them."""
    number = _find_unused_name(batch.schema.names)
    numbered = batch.append_column(number, pa.array(np.arange(batch.num_rows)))
    context = _PER_THREAD.context
    frame = context.create_dataframe([[numbered]], name=_TABLE)
    try:
        rows = frame if condition is None else frame.filter(frame.parse_sql_expr(condition))
        return rows.select(col(quote(number)), *_parse_expressions(frame, expressions)).to_arrow_table()
    finally:
        context.deregister_table(_TABLE)


def _parse_expressions(
    frame: DataFrame, expressions: Mapping[str, tuple[str, pa.DataType]]
) -> Iterator[Expr]:
    for place, (text, kind) in enumerate(expressions.values()):
        yield frame.parse_sql_expr(text).cast(kind).alias(f"value {place}")


def _find_unused_name(names: list[str]) -> str:
    name = "number"
    while name in names:
        name += "_"
    return name


class _PerThread(threading.local):
    """The context in which a thread registers its batches."""

    def __init__(self) -> None:
        self.context = policy_context()


_PER_THREAD = _PerThread()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="policy")


def flag_rows(
    table: str, rows: Sequence[pa.RecordBatch], conditions: Iterable[Expression]
) -> list[np.ndarray] | None:
    """Flag the rows that all of some conditions of a plan hold for.

    Args:
        table: name by which the conditions know the rows.
        rows: in batches, at least one.
        conditions: at least one.

    Returns:
        One array of flags for each batch; None if a condition fails, or can't be evaluated.
    """

    def flag() -> pa.Table:
        context = policy_context()
        context.register_record_batches(table, [list(rows)])
        condition = reduce(and_, map(Expr, conditions))
        return context.table(quote(table)).select(condition.alias("flag")).to_arrow_table()

    try:
        found = run_on_own_thread(lambda: raise_panics(flag))
    except Exception:  # noqa: BLE001 - whatever DataFusion says of the conditions, it says of the statement too
        return None
    flags = found.column(0).fill_null(False).to_numpy()  # noqa: FBT003 - a value
    return np.split(flags, np.cumsum([batch.num_rows for batch in rows])[:-1])


def evaluate_texts(
    rows: pa.RecordBatch,
    texts: Sequence[str],
    values: Mapping[str, pa.Scalar],
    steps: Sequence[Mapping[str, str]] = (),
) -> list[pa.Array | None]:
    """Evaluate expressions over rows, one after the other if not all of them can be evaluated.

    Args:
        rows: at least one.
        texts: at least one, over the columns of the rows and those of steps.
        values: of the parameters in them.
        steps: name of a column -> expression over the columns of the rows and of the steps before.

    Returns:
        One value per row for each; None for one that fails.
    """

    def compute(chosen: Sequence[str]) -> list[pa.Array | None]:
        def select() -> pa.Table:
            context = _PER_THREAD.context
            context.register_record_batches("rows", [[rows]])
            try:
                outputs = {f"v{place}": text for place, text in enumerate(chosen)}
                query = _write_nested(outputs, steps)
                return context.sql(query, param_values=dict(values) or None).to_arrow_table()
            finally:
                context.deregister_table("rows")

        try:
            found = run_on_own_thread(lambda: raise_panics(select))
        except Exception:  # noqa: BLE001 - a value that can't be computed is not known
            return [None]
        return [column.combine_chunks() for column in found.columns]

    found = compute(texts)
    return found if len(found) == len(texts) else [compute([one])[0] for one in texts]


def _write_nested(outputs: Mapping[str, str], steps: Sequence[Mapping[str, str]]) -> str:
    """Write a query of outputs over rows, with the steps that they need in derived tables.

    An expression would be optimised once for each place of a step in it.
    """
    query, depth = f"SELECT {_name(outputs)} FROM ", 0  # noqa: S608
    for step in reversed(steps):
        if re.search(rf"\b(?:{'|'.join(step)})\b", query):
            query, depth = f"{query}(SELECT *, {_name(step)} FROM ", depth + 1  # noqa: S608
    return f"{query}rows{')' * depth}"


def _name(expressions: Mapping[str, str]) -> str:
    return ", ".join(f"{text} AS {name}" for name, text in expressions.items())
