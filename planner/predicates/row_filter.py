"""A decoded predicate as the exact filter of a scan, and other conditions in SQL's three values.

Arrow's own filter means something else by some of what DataFusion pushes: its `is_in` knows no NULL, so that
`(s IN ('a', 'b')) IS NULL` would never hold, and its NaN equals nothing. Here NULL in or before a list
gives NULL, and floating-point numbers compare as `docs/sql.md` says. Arrow compares no values of extension
types, such as JSON or UUIDs: they compare as what they are stored as, as in DataFusion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes.rows import lance_filter
from lance_gateway.planner.predicates.arrow_expressions import Call, Field, Node, Value, read_expression
from lance_gateway.planner.predicates.predicate import (
    And,
    Anything,
    Comparison,
    InList,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    describe,
)

_Compare = Callable[[pa.Array, pa.Array | pa.Scalar], pa.BooleanArray]
_COMPARISONS: Mapping[str, _Compare] = MappingProxyType(
    {
        "equal": pc.equal,
        "not_equal": pc.not_equal,
        "less": pc.less,
        "less_equal": pc.less_equal,
        "greater": pc.greater,
        "greater_equal": pc.greater_equal,
    }
)
_COMBINATIONS: Mapping[str, Callable[[pa.Array, pa.Array], pa.BooleanArray]] = MappingProxyType(
    {"and_kleene": pc.and_kleene, "and": pc.and_kleene, "or_kleene": pc.or_kleene, "or": pc.or_kleene}
)


def evaluate_condition(node: Node, batch: pa.RecordBatch) -> pa.BooleanArray | None:
    """Evaluate a condition to TRUE, FALSE or NULL for each row; None if part of it is not supported.

    Args:
        node: a condition.
        batch: the rows, with all columns that it names.
    """
    found = _evaluate(node, batch)
    return found if isinstance(found, pa.Array) and pa.types.is_boolean(found.type) else None


def _evaluate(node: Node, batch: pa.RecordBatch) -> pa.Array | None:
    match node:
        case Field(name):
            column = _unwrap(batch.column(name))
            return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        case Value(scalar):
            return _unwrap(pa.repeat(scalar, batch.num_rows))
        case Call(function, arguments, options):
            values = [_evaluate(argument, batch) for argument in arguments]
            known = [value for value in values if value is not None]
            return _evaluate_call(function, known, options) if len(known) == len(values) else None
    return None


def _unwrap(column: pa.Array) -> pa.Array:
    """Return the stored values of an extension type; the values of another type."""
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _evaluate_call(function: str, values: list[pa.Array], options: pa.StructScalar | None) -> pa.Array | None:
    if function in _COMBINATIONS:
        return reduce(_COMBINATIONS[function], values)
    if function == "invert":
        return pc.invert(values[0])
    if function in {"is_null", "is_valid"}:
        if options is not None and options["nan_is_null"].as_py():
            return None
        return values[0].is_null() if function == "is_null" else values[0].is_valid()
    if function == "is_in" and options is not None:
        return _evaluate_membership(values[0], options["value_set"].values)
    if function in _COMPARISONS:
        return _compare_values(function, values[0], values[1])
    return None


def _compare_values(function: str, left: pa.Array, right: pa.Array) -> pa.BooleanArray | None:
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        return compare_floats(_COMPARISONS[function], left, right)
    try:
        return _COMPARISONS[function](left, right)
    except pa.ArrowNotImplementedError:
        return None


def compare_floats(compare: _Compare, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    """Compare as Lance does: NaN equals itself and is the greatest, signed the least; 0.0 equals -0.0."""
    hits = compare(_to_ordered_integers(left), _to_ordered_integers(right))
    return pc.if_else(pc.and_(left.is_valid(), right.is_valid()), hits, None)


def _to_ordered_integers(column: pa.Array) -> pa.Array:
    """Map floating-point numbers to integers that compare as Lance compares the numbers."""
    numbers = column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        bits: np.ndarray = (numbers + 0.0).view(np.int64)
    return pa.array(bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF)))


def _evaluate_membership(column: pa.Array, members: pa.Array) -> pa.BooleanArray | None:
    if pa.types.is_dictionary(members.type):
        members = members.dictionary_decode()
    listed = members.drop_null()
    nothing = pa.array(np.zeros(len(column), np.bool_))
    if pa.types.is_floating(column.type):
        hits = reduce(
            pc.or_,
            (
                pc.fill_null(compare_floats(pc.equal, column, pa.repeat(one, len(column))), fill_value=False)
                for one in listed
            ),
            nothing,
        )
    else:
        try:
            hits = pc.is_in(column, value_set=listed.cast(column.type))
        except pa.ArrowException:
            return None
    is_known = pc.and_(column.is_valid(), pa.scalar(value=len(listed) == len(members)))
    return pc.if_else(pc.or_(hits, is_known), hits, None)


_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, eq=False)
class PredicateFilter:
    """Row filter in Lance's filter language where possible, else evaluated here with the same meaning.

    Args:
        predicate: the decoded expression.
        expression: decides alone where the predicate is not fully understood: by its tree, in SQL's values,
            or as Arrow has it where there are functions in the tree that are not known.
    """

    predicate: Predicate
    expression: pc.Expression

    @cached_property
    def columns(self) -> frozenset[str]:
        """Columns that the predicate reads."""
        node = read_expression(self.expression)
        return find_columns(self.predicate) | frozenset(() if node is None else _iterate_fields(node))

    def sql(self, names: Mapping[str, str]) -> str | None:
        """Format the filter for Lance over stored columns; None if Lance can't express it."""
        return _format_sql(self.predicate, names)

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return one boolean per row, without NULLs."""
        if not is_understood(self.predicate):
            return self._matches_expression(batch)
        return _evaluate_predicate(self.predicate, batch)

    def __str__(self) -> str:
        return describe(self.predicate)

    def _matches_expression(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        node = read_expression(self.expression)
        truth = None if node is None else evaluate_condition(node, batch)
        if truth is not None:
            return pc.fill_null(truth, fill_value=False)
        columns = {name: _unwrap(batch.column(name)) for name in sorted(self.columns)}
        numbered = pa.table({**columns, "": np.arange(batch.num_rows)})
        found = np.zeros(batch.num_rows, dtype=np.bool_)
        found[numbered.filter(self.expression).column("").to_numpy()] = True
        return pa.array(found)


def build_key_predicate(keys: pa.Table) -> Predicate:
    """Build the condition that a row has one of these primary keys.

    Args:
        keys: one column per key column, no NULLs.
    """
    if keys.num_columns == 1:
        return InList(keys.column_names[0], tuple(keys.column(0)))
    alternatives = tuple(
        And(tuple(Comparison(name, "=", value) for name, value in zip(keys.column_names, row, strict=True)))
        for row in zip(*keys.columns, strict=True)
    )
    return alternatives[0] if len(alternatives) == 1 else Or(alternatives)


def _evaluate_predicate(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    match predicate:
        case And(operands):
            everything = pa.array(np.ones(batch.num_rows, dtype=np.bool_))
            return reduce(pc.and_, (_evaluate_predicate(operand, batch) for operand in operands), everything)
        case Or(operands):
            nothing = pa.array(np.zeros(batch.num_rows, dtype=np.bool_))
            return reduce(pc.or_, (_evaluate_predicate(operand, batch) for operand in operands), nothing)
        case Not(IsNull(column)):
            return batch.column(column).is_valid()
        case Not(InList(column, values)):
            return pc.and_not(batch.column(column).is_valid(), _is_in(_read_column(batch, column), values))
        case Comparison(column, operator, value):
            return _compare(_read_column(batch, column), operator, value)
        case InList(column, values):
            return _is_in(_read_column(batch, column), values)
        case IsNull(column):
            return batch.column(column).is_null()
        case _:
            msg = f"{predicate!r} can't be evaluated"
            raise TypeError(msg)


def _compare(column: pa.Array, operator: Operator, value: pa.Scalar) -> pa.BooleanArray:
    compare = _COMPARE[operator]
    if not pa.types.is_floating(column.type):
        return pc.fill_null(compare(column, value), fill_value=False)
    return pc.fill_null(compare_floats(compare, column, pa.repeat(value, len(column))), fill_value=False)


def _is_in(column: pa.Array, values: tuple[pa.Scalar, ...]) -> pa.BooleanArray:
    if pa.types.is_floating(column.type):
        nothing = pa.array(np.zeros(len(column), dtype=np.bool_))
        return reduce(pc.or_, (_compare(column, "=", value) for value in values), nothing)
    return pc.is_in(column, value_set=pa.array(values, column.type))


def _read_column(batch: pa.RecordBatch, column: str) -> pa.Array:
    array = batch.column(column)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _format_sql(predicate: Predicate, names: Mapping[str, str]) -> str | None:
    match predicate:
        case And(()):
            return "true"
        case Or(()):
            return "false"
        case And(operands) | Or(operands):
            texts = [_format_sql(operand, names) for operand in operands]
            if any(text is None for text in texts):
                return None
            word = " AND " if isinstance(predicate, And) else " OR "
            return word.join(f"({text})" for text in texts)
        case Not(IsNull(column)):
            return _format_condition(names[column], "IS NOT NULL")
        case IsNull(column):
            return _format_condition(names[column], "IS NULL")
        case Not(InList(column, values)):
            inner = lance_filter.format_in_list(names[column], values)
            return None if inner is None else f"NOT ({inner})"
        case InList(column, values):
            return lance_filter.format_in_list(names[column], values) if values else "false"
        case Comparison(column, operator, value):
            text = lance_filter.format_literal(value)
            return None if text is None else _format_condition(names[column], f"{operator} {text}")
        case _:
            return None


def _format_condition(name: str, suffix: str) -> str | None:
    quoted = lance_filter.quote_column(name)
    return None if quoted is None else f"{quoted} {suffix}"


def is_understood(predicate: Predicate) -> bool:
    """Return whether the predicate expresses all of what it was decoded from."""
    match predicate:
        case And(operands) | Or(operands):
            return all(map(is_understood, operands))
        case Anything():
            return False
        case _:
            return True


def find_columns(predicate: Predicate) -> frozenset[str]:
    """Return the columns that the predicate reads, as far as it is understood."""
    return frozenset(_iterate_columns(predicate))


def _iterate_columns(predicate: Predicate) -> Iterator[str]:
    match predicate:
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _iterate_columns(operand)
        case Not(operand):
            yield from _iterate_columns(operand)
        case Comparison() | InList() | IsNull():
            yield predicate.column
        case _:
            return


def _iterate_fields(node: Node) -> Iterator[str]:
    if isinstance(node, Field):
        yield node.name
    elif isinstance(node, Call):
        for argument in node.arguments:
            yield from _iterate_fields(argument)
