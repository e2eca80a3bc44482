"""Plans how the restrictions of a principal are applied to the rows of a table, once per schema.

    row filter   tenant = 'a' AND lower(s) = 'x'     mask of email   left(email, 1) || '...'

Conjuncts that DataFusion would push into a leaf (tenant = 'a') are applied by storage, with those of the
statement: they prune regions and find keys. The rest of the filter, and the masks, are evaluated batch by
batch, below all operators of the statement.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from datafusion import DataFrame, Expr
from datafusion.expr import EmptyRelation

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError
from lance_gateway.memwal.rules.expressions import shorten_reason
from lance_gateway.memwal.transforms.determinism import find_unstable_parts, list_subexpressions
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.bridge.plan_shape import find_direct_shape
from lance_gateway.planner.bridge.row_expressions import (
    ROW_FUNCTIONS,
    evaluate,
    policy_context,
    rewrite_expression,
    run_on_own_thread,
)
from lance_gateway.planner.predicates.predicate import Predicate, decode

logger = logging.getLogger(__name__)

_PLANS = 4096
_TABLE = "rows"


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The expression that replaces a column.

    Attributes:
        expression: SQL over the unmasked row.
        type: of the column, and of the masked values.
        columns: that the expression reads.
        constant: array of the one value of all rows; None if the value depends on the row.
    """

    expression: str
    type: pa.DataType
    columns: frozenset[str]
    constant: pa.Array | None


@dataclass(frozen=True, slots=True, eq=False)
class TablePolicy:
    """The restrictions of one principal on one table, fitted to its columns.

    Attributes:
        schema: the columns that exist for the principal.
        pushed: conjuncts of the row filter that storage applies exactly, or None.
        predicate: `pushed`, decoded.
        condition: the whole row filter, unless `pushed` is all of it.
        condition_columns: that the condition reads.
        masks: column -> its mask.
    """

    schema: pa.Schema
    pushed: pc.Expression | None
    predicate: Predicate
    condition: str | None
    condition_columns: frozenset[str]
    masks: Mapping[str, Mask]

    def columns_for(self, columns: frozenset[str]) -> frozenset[str]:
        """Return the stored columns that are needed to show some columns."""
        needed = set(columns) - self.masks.keys() | self.condition_columns
        for column in columns & self.masks.keys():
            needed |= self.masks[column].columns
        return frozenset(needed)


def plan_policy(schema: pa.Schema, access: TableAccess, uuids: frozenset[str] = frozenset()) -> TablePolicy:
    """Plan restrictions for the columns of a table; the last plans are cached.

    Args:
        schema: all columns of the table.
        access: the restrictions.
        uuids: columns of UUIDs, which are texts in small letters.

    Raises:
        InvalidInputError: the restrictions don't fit; the message quotes the policy.
    """
    masks = tuple(sorted(access.masks.items()))
    return _plan_policy(schema, access.row_filter, masks, access.hidden_columns, uuids)


@lru_cache(maxsize=_PLANS)
def _plan_policy(
    schema: pa.Schema,
    row_filter: str | None,
    masks: tuple[tuple[str, str], ...],
    hidden: frozenset[str],
    uuids: frozenset[str],
) -> TablePolicy:
    for does, named in (("hides", sorted(hidden)), ("masks", [column for column, _ in masks])):
        for column in named:
            if column not in schema.names:
                msg = f"the policy {does} column {column!r}, which does not exist"
                raise InvalidInputError(f"{msg}; there are: {', '.join(schema.names)}")
    row_filter = None if row_filter is None else _mend("row filter", row_filter, schema, uuids)
    masks = tuple((column, _mend(f"mask of column {column!r}", one, schema, uuids)) for column, one in masks)
    fitted = {column: _plan_mask(schema, column, expression) for column, expression in masks}
    visible = pa.schema([field for field in schema if field.name not in hidden])
    pushed, condition, columns = _plan_row_filter(schema, row_filter)
    return TablePolicy(visible, pushed, decode(pushed, schema), condition, columns, fitted)


def _mend(what: str, expression: str, schema: pa.Schema, uuids: frozenset[str]) -> str:
    try:
        return rewrite_expression(expression, schema, uuids, reads_json=True)
    except LanceGatewayError as error:
        raise _policy_error(f"{what} {expression!r}", error) from error


def _plan_row_filter(
    schema: pa.Schema, text: str | None
) -> tuple[pc.Expression | None, str | None, frozenset[str]]:
    """Plan a row filter: return what is pushed, what else is evaluated, and the columns of the latter."""
    if text is None:
        return None, None, frozenset()
    what = f"row filter {text!r}"

    def plan() -> tuple[pc.Expression | None, bool, frozenset[str]]:
        leaf = _Recorder(schema)
        frame = _make_frame(leaf)
        parsed = _parse_expression(frame, what, text)
        filtered = frame.filter(parsed)
        if isinstance(filtered.optimized_logical_plan().to_variant(), EmptyRelation):
            return pc.scalar(value=False), True, frozenset()
        if _is_pushed(filtered, leaf):
            shape = find_direct_shape(filtered.optimized_logical_plan())
            if shape is not None and shape.table == _TABLE and not shape.counts:
                return leaf.filter, True, frozenset()
        return leaf.filter, False, _find_columns(parsed)

    try:
        pushed, complete, columns = run_on_own_thread(plan)
        if complete:
            return pushed, None, frozenset()
        evaluate(_make_null_row(schema, columns), text, {})
    except Exception as error:
        raise _policy_error(what, error) from error
    return pushed, text, columns


def _is_pushed(filtered: DataFrame, leaf: _Recorder) -> bool:
    """Push conjuncts into the leaf, and return whether storage can apply them; otherwise, clear them.

    DataFusion's bindings can't combine a conjunct that folds to a constant with one that doesn't, and push
    comparisons for which Arrow has no kernels. An error of the filter itself is found by evaluating it.
    """
    try:
        filtered.execution_plan()
        if leaf.filter is not None:
            leaf.schema.empty_table().filter(leaf.filter)
    except Exception:  # noqa: BLE001 - the bindings raise what they like
        leaf.filter = None
        return False
    return True


def _plan_mask(schema: pa.Schema, column: str, expression: str) -> Mask:
    kind = schema.field(column).type
    what = f"mask {expression!r} of column {column!r} ({kind})"
    try:
        columns = run_on_own_thread(
            lambda: _find_columns(_parse_expression(_make_frame(_Recorder(schema)), what, expression))
        )
        # A row of NULLs checks the types, and gives the value of an expression without columns.
        _, values = evaluate(_make_null_row(schema, columns), None, {column: (expression, kind)})
    except Exception as error:
        raise _policy_error(what, error) from error
    return Mask(expression, kind, columns, None if columns else values[column])


def _parse_expression(frame: DataFrame, what: str, text: str) -> Expr:
    """Parse an expression of a policy.

    Raises:
        InvalidInputError: it depends on more than the row.
    """
    parsed = frame.parse_sql_expr(text)
    unstable = [one for one in find_unstable_parts(parsed) if one not in ROW_FUNCTIONS]
    if unstable:
        msg = f"{what} uses {', '.join(unstable)}, but a policy must follow from the row alone"
        raise InvalidInputError(msg)
    return parsed


def _find_columns(expression: Expr) -> frozenset[str]:
    """Return the columns that an expression names, also those that simplifying it would remove."""
    parts = list_subexpressions(expression)
    return frozenset(part.to_variant().name() for part in parts if part.variant_name() == "Column")


def _make_frame(leaf: _Recorder) -> DataFrame:
    context = policy_context()
    context.register_dataset(_TABLE, leaf)
    return context.table(_TABLE)


def _make_null_row(schema: pa.Schema, columns: frozenset[str]) -> pa.RecordBatch:
    """Return one row of NULLs."""
    names = [name for name in schema.names if name in columns] or [schema.names[0]]
    return pa.record_batch([pa.nulls(1, schema.field(name).type) for name in names], names=names)


def _policy_error(what: str, error: Exception) -> InvalidInputError:
    if isinstance(error, InvalidInputError):
        return error
    return InvalidInputError(f"{what} can't be used: {shorten_reason(error)}")


class _Recorder(pads.Dataset):
    """A leaf that is planned, but never read: it records projection and filter."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.columns: tuple[str, ...] = tuple(schema.names)
        self.filter: pc.Expression | None = None

    @property
    def schema(self) -> pa.Schema:
        """Return all columns of the table."""
        return self._schema

    def scanner(self, columns: list[str] | None = None, **_: Any) -> _Projected:  # noqa: ANN401
        """Record the projection."""
        self.columns = tuple(self._schema.names if columns is None else columns)
        return _Projected(pa.schema([self._schema.field(name) for name in self.columns]))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[None]:  # noqa: A002
        """Record the conjuncts."""
        self.filter = pc.scalar(filter) if isinstance(filter, pa.Scalar) else filter
        return iter(())


@dataclass(frozen=True, slots=True)
class _Projected:
    projected_schema: pa.Schema


def policy_mismatch_error(table: str) -> PreconditionError:
    """Return the error for users of a table whose policy can't be applied."""
    return PreconditionError(
        f"the access policy of table {table!r} does not fit the table: none of its rows are shown until an "
        "administrator corrects the policy (the log of the gateway says what is wrong)"
    )


@dataclass(frozen=True, eq=False)
class PolicedRows:
    """The policy for the rows of one scan; the `RowPolicy` of a `SecurityBarrierExec`.

    Args:
        table: its name, for messages.
        policy: of the table.
        columns: that are needed above the policy.
    """

    table: str
    policy: TablePolicy
    columns: frozenset[str]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Filter and mask rows, as `RowPolicy.apply` requires.

        Raises:
            PreconditionError: the policy can't be evaluated for a row.
        """
        masks = {name: mask for name, mask in self.policy.masks.items() if name in self.columns}
        computed = {
            name: (mask.expression, mask.type) for name, mask in masks.items() if mask.constant is None
        }
        values: dict[str, pa.Array] = {}
        if computed or self.policy.condition is not None:
            try:
                batch, values = evaluate(batch, self.policy.condition, computed)
            except Exception:
                logger.exception("the access policy of table %r can't be evaluated", self.table)
                # Without the cause, in which DataFusion quotes values.
                raise policy_mismatch_error(self.table) from None
        visible = batch.select([name for name in batch.schema.names if name in self.columns - masks.keys()])
        first = pa.array(np.zeros(batch.num_rows, dtype=np.int64))
        for name, mask in masks.items():
            column = values[name] if mask.constant is None else mask.constant.take(first)
            visible = visible.append_column(name, column)
        return visible
