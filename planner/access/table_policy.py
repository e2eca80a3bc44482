"""How the restrictions of a table's access are applied to its rows: planned once per schema.

    row filter   tenant = 'a' AND lower(s) = 'x'     mask of email   left(email, 1) || '...'

The conjuncts that DataFusion would hand to a leaf (tenant = 'a') are handed to storage, beside those of the
statement: they prune regions and find keys. The rest of the filter, and the masks, are evaluated batch by
batch, below everything that the statement says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from datafusion import DataFrame, Expr
from datafusion.expr import EmptyRelation

from memwal.errors import InvalidInputError, LanceGatewayError
from memwal.transforms.determinism import find_unstable_parts, list_subexpressions
from planner.access.rights import TableAccess
from planner.bridge.plan_shape import direct_shape
from planner.bridge.row_expressions import evaluate, on_own_thread, policy_context
from planner.predicates.predicate import Predicate, decode
from planner.sql.rewrites.misread_clauses import refuse_misread
from planner.sql.rewrites.separate_lists import separated
from planner.sql.tokens import tokenize

__all__ = ["Mask", "TablePolicy", "plan_policy"]

_PLANS = 4096
_TABLE = "rows"
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """What stands in for a column.

    Attributes:
        expression: SQL over the row's true values.
        type: of the column, and of the values that are shown.
        columns: that the expression reads.
        constant: array of the one value that is shown in every row; None where it depends on the row.
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
        pushed: conjuncts of the row filter that storage applies exactly; None where there are none.
        predicate: the same, decoded.
        condition: the whole row filter, where `pushed` is not all of it.
        condition_columns: that the condition reads.
        masks: column -> what stands in for it.
    """

    schema: pa.Schema
    pushed: pc.Expression | None
    predicate: Predicate
    condition: str | None
    condition_columns: frozenset[str]
    masks: Mapping[str, Mask]

    def columns_for(self, columns: frozenset[str]) -> frozenset[str]:
        """Stored columns that must be read to show these columns."""
        needed = set(columns) - self.masks.keys() | self.condition_columns
        for column in columns & self.masks.keys():
            needed |= self.masks[column].columns
        return frozenset(needed)


def plan_policy(schema: pa.Schema, access: TableAccess) -> TablePolicy:
    """Fit restrictions to a table's columns; the last few thousand fits are remembered.

    Args:
        schema: all columns of the table.
        access: the restrictions.

    Raises:
        InvalidInputError: what does not fit, in the policy's own words.
    """
    masks = tuple(sorted(access.masks.items()))
    return _planned(schema, access.row_filter, masks, access.hidden_columns)


@lru_cache(maxsize=_PLANS)
def _planned(
    schema: pa.Schema, row_filter: str | None, masks: tuple[tuple[str, str], ...], hidden: frozenset[str]
) -> TablePolicy:
    for does, named in (("hides", sorted(hidden)), ("masks", [column for column, _ in masks])):
        for column in named:
            if column not in schema.names:
                msg = f"the policy {does} column {column!r}, which does not exist"
                raise InvalidInputError(f"{msg}; there are: {', '.join(schema.names)}")
    texts = [("row filter", row_filter), *((f"mask of column {column!r}", one) for column, one in masks)]
    for what, text in texts:
        if text is None:
            continue
        try:
            refuse_misread(tokenize(text))
        except LanceGatewayError as error:
            raise _unusable(f"{what} {text!r}", error) from error
    row_filter = None if row_filter is None else separated(row_filter)
    masks = tuple((column, separated(expression)) for column, expression in masks)
    fitted = {column: _mask(schema, column, expression) for column, expression in masks}
    visible = pa.schema([field for field in schema if field.name not in hidden])
    pushed, condition, columns = _row_filter(schema, row_filter)
    return TablePolicy(visible, pushed, decode(pushed, schema), condition, columns, fitted)


def _row_filter(
    schema: pa.Schema, text: str | None
) -> tuple[pc.Expression | None, str | None, frozenset[str]]:
    """What is pushed, what else is to be evaluated, and the columns of the latter."""
    if text is None:
        return None, None, frozenset()
    what = f"row filter {text!r}"

    def plan() -> tuple[pc.Expression | None, bool, frozenset[str]]:
        leaf = _Recorder(schema)
        frame = _frame(leaf)
        parsed = _parsed(frame, what, text)
        filtered = frame.filter(parsed)
        if isinstance(filtered.optimized_logical_plan().to_variant(), EmptyRelation):
            return pc.scalar(value=False), True, frozenset()
        if _is_pushed(filtered, leaf):
            shape = direct_shape(filtered)
            if shape is not None and shape.table == _TABLE and not shape.counts:
                return leaf.filter, True, frozenset()
        return leaf.filter, False, _columns_of(parsed)

    try:
        pushed, complete, columns = on_own_thread(plan)
        if complete:
            return pushed, None, frozenset()
        evaluate(_nulls(schema, columns), text, {})
    except Exception as error:
        raise _unusable(what, error) from error
    return pushed, text, columns


def _is_pushed(filtered: DataFrame, leaf: _Recorder) -> bool:
    """Whether the leaf was handed conjuncts that storage can apply; it has none where that fails.

    DataFusion's bindings can't combine a conjunct that folds to a constant with one that doesn't, and hand
    over comparisons for which Arrow has no kernels. Evaluating the whole filter above then tells whether
    there is something wrong with it.
    """
    try:
        filtered.execution_plan()
        if leaf.filter is not None:
            leaf.schema.empty_table().filter(leaf.filter)
    except Exception:  # noqa: BLE001 - the bindings raise what they like
        leaf.filter = None
        return False
    return True


def _mask(schema: pa.Schema, column: str, expression: str) -> Mask:
    kind = schema.field(column).type
    what = f"mask {expression!r} of column {column!r} ({kind})"
    try:
        columns = on_own_thread(lambda: _columns_of(_parsed(_frame(_Recorder(schema)), what, expression)))
        # NULLs tell whether the types fit, and what an expression without columns is worth.
        _, values = evaluate(_nulls(schema, columns), None, {column: (expression, kind)})
    except Exception as error:
        raise _unusable(what, error) from error
    return Mask(expression, kind, columns, None if columns else values[column])


def _parsed(frame: DataFrame, what: str, text: str) -> Expr:
    """An expression of a policy: it is planned once and applied to row after row.

    Raises:
        InvalidInputError: it does not follow from the row alone.
    """
    parsed = frame.parse_sql_expr(text)
    unstable = find_unstable_parts(parsed)
    if unstable:
        msg = f"{what} uses {', '.join(unstable)}, but a policy must follow from the row alone"
        raise InvalidInputError(msg)
    return parsed


def _columns_of(expression: Expr) -> frozenset[str]:
    """Columns that an expression names: also those that its plan needs no more, once it is simplified."""
    parts = list_subexpressions(expression)
    return frozenset(one.to_variant().name() for one in parts if one.variant_name() == "Column")


def _frame(leaf: _Recorder) -> DataFrame:
    context = policy_context()
    context.register_dataset(_TABLE, leaf)
    return context.table(_TABLE)


def _nulls(schema: pa.Schema, columns: frozenset[str]) -> pa.RecordBatch:
    """One row without values."""
    names = [name for name in schema.names if name in columns] or [schema.names[0]]
    return pa.record_batch([pa.nulls(1, schema.field(name).type) for name in names], names=names)


def _unusable(what: str, error: Exception) -> InvalidInputError:
    if isinstance(error, InvalidInputError):
        return error
    reason = str(error).strip().partition("\n")[0]
    shown = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."
    return InvalidInputError(f"{what} can't be used: {shown}")


class _Recorder(pads.Dataset):
    """A leaf that is planned and never read: it remembers what it was asked for."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.columns: tuple[str, ...] = tuple(schema.names)
        self.filter: pc.Expression | None = None

    @property
    def schema(self) -> pa.Schema:
        """All columns of the table."""
        return self._schema

    def scanner(self, columns: list[str] | None = None, **_: Any) -> _Projected:  # noqa: ANN401
        """DataFusion asks for the projected schema."""
        self.columns = tuple(self._schema.names if columns is None else columns)
        return _Projected(pa.schema([self._schema.field(name) for name in self.columns]))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[None]:  # noqa: A002
        """DataFusion hands over the conjuncts."""
        self.filter = pc.scalar(filter) if isinstance(filter, pa.Scalar) else filter
        return iter(())


@dataclass(frozen=True, slots=True)
class _Projected:
    projected_schema: pa.Schema
