"""Infers the types of parameters, and renders values as exact literals."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.columns.kinds import is_binary, is_text
from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.types.placeholder_types import infer_placeholder_types
from lance_gateway.planner.sql.type_names import PLAIN_TYPES, UNITS, name_type

# A parameter with an inferred type in a printed plan, up to the type.
_TYPED = re.compile(
    r'Placeholder \{ id: "\$(\d+)", field: Some\(Field \{ name: "(?:[^"\\]|\\.)*", data_type: '
)
_CAST = re.compile(
    r'Cast\(\w+ \{ expr: Placeholder\(Placeholder \{ id: "\$(\d+)", field: None \}\), '
    r'field: Field \{ name: "(?:[^"\\]|\\.)*", data_type: '
)
_LIMIT = re.compile(r'(?:skip|fetch): Some\(Placeholder\(Placeholder \{ id: "\$(\d+)", field: None \}\)\)')
_FIELD = re.compile(r'Field \{ (?:name: "((?:[^"\\]|\\.)*)", )?data_type: ')
_ARGUMENT = re.compile(r'(?:Some\(")?([-+/\w:]*)(?:"\))?')

_DECIMALS = {
    "Decimal32": pa.decimal32,
    "Decimal64": pa.decimal64,
    "Decimal128": pa.decimal128,
    "Decimal256": pa.decimal256,
}
_UNIT_TYPES = {"Time32": pa.time32, "Time64": pa.time64, "Duration": pa.duration}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_SQL_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint8(): "TINYINT UNSIGNED",
    pa.uint16(): "SMALLINT UNSIGNED",
    pa.uint32(): "INT UNSIGNED",
    pa.uint64(): "BIGINT UNSIGNED",
    pa.float32(): "REAL",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BYTEA",
    pa.date32(): "DATE",
}
# Types whose natural SQL text has exactly that type.
_NATURAL = frozenset({pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.binary()})


def infer_parameter_types(
    logical_plan: LogicalPlan, count: int, optimized: Callable[[], LogicalPlan] | None = None
) -> tuple[pa.DataType, ...]:
    """Return the types of $1 ... $count in a plan, as `find_told_types` finds them, and string for others."""
    told = find_told_types(logical_plan, count, optimized)
    return tuple(told.get(ordinal, pa.string()) for ordinal in range(count))


def find_told_types(
    logical_plan: LogicalPlan, count: int, optimized: Callable[[], LogicalPlan] | None = None
) -> dict[int, pa.DataType]:
    """Return ordinal -> type of the parameters whose type a plan tells.

    Args:
        logical_plan: `DataFrame.logical_plan()` of the statement with its placeholders.
        count: the number of parameters.
        optimized: makes the optimized plan; called only for parameters inside of subqueries, which the
            logical plan does not show, and of which optimizing makes joins.

    Returns:
        No null, view or dictionary types; parameters of which DataFusion infers no type are missing.
    """
    types = infer_placeholder_types(logical_plan)
    if len(types) < count:
        # The bindings have no objects for plans of subqueries, counts of a Limit, and FILTER of an aggregate.
        printed = repr(logical_plan)
        _collect(printed, types)
        if len(types) < count and "<subquery>" in printed and optimized is not None:
            # A subquery that DataFusion does not plan tells nothing; the plan with guessed types is refused.
            with suppress(Exception):
                joined = optimized()
                types = infer_placeholder_types(joined, is_coerced=True) | types
                _collect(repr(joined), types, is_coerced=True)
    return {number - 1: kind for number, kind in types.items() if number <= count}


def _collect(printed: str, types: dict[int, pa.DataType], *, is_coerced: bool = False) -> None:
    """Add the types in a printed plan that are not known yet; see `infer_placeholder_types`."""
    for pattern in (_TYPED, _CAST):
        for match in pattern.finditer(printed):
            dtype = _TypeReader(printed, match.end()).read()
            if dtype is not None and not (is_coerced and pattern is _CAST and is_text(dtype)):
                types.setdefault(int(match[1]), dtype)
    for match in _LIMIT.finditer(printed):
        types.setdefault(int(match[1]), pa.int64())


class _TypeReader:
    """Reads one data type as Rust prints it, e.g. Timestamp(Microsecond, Some("UTC"))."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self._at = position

    def read(self) -> pa.DataType | None:
        """Read a type, without views and dictionaries; return None if no parameter can have it."""
        word = re.compile(r"\w+").match(self._text, self._at)
        if word is None:
            return None
        self._at = word.end()
        name = word[0]
        if name in PLAIN_TYPES:
            return PLAIN_TYPES[name]
        if not self._skip("("):
            return None
        try:
            return self._read_nested(name)
        except (KeyError, ValueError, pa.ArrowInvalid):
            return None

    def _read_nested(self, name: str) -> pa.DataType | None:
        if name in {"List", "LargeList", "FixedSizeList"}:
            item = self._read_field()
            if item is None or name != "FixedSizeList":
                return None if item is None else (pa.list_ if name == "List" else pa.large_list)(item)
            return pa.list_(item, int(self._read_argument()))
        if name == "Struct":
            return self._read_struct()
        if name == "Map":
            entries = self._read_field()
            return None if entries is None else pa.map_(*(entry.type for entry in entries.type))
        if name == "Dictionary":
            self.read()
            self._skip(", ")
            return self.read()
        return _read_scalar_type(name, self._read_argument)

    def _read_struct(self) -> pa.DataType | None:
        self._skip("[")
        fields = []
        while self._text[self._at] != "]":
            field = self._read_field()
            if field is None:
                return None
            fields.append(field)
            self._skip(", ")
        return pa.struct(fields)

    def _read_field(self) -> pa.Field | None:
        """Read Field { name: "a", data_type: Int64, nullable: true }; items of lists have no name."""
        head = _FIELD.match(self._text, self._at)
        if head is None:
            return None
        self._at = head.end()
        dtype = self.read()
        self._at = self._text.index("}", self._at) + 1
        self._skip(")")
        self._skip(", ")
        name = "item" if head[1] is None else head[1].replace('\\"', '"')
        return None if dtype is None else pa.field(name, dtype)

    def _read_argument(self) -> str:
        match = _ARGUMENT.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        self._skip(", ")
        return match[1]

    def _skip(self, what: str) -> bool:
        is_next = self._text.startswith(what, self._at)
        self._at += len(what) * is_next
        return is_next


def _read_scalar_type(name: str, argument: Callable[[], str]) -> pa.DataType | None:
    """Return a type whose arguments are no types, such as Decimal128(10, 2)."""
    if name == "Timestamp":
        unit, zone = UNITS[argument()], argument()
        return pa.timestamp(unit, None if zone == "None" else zone)
    if name in _DECIMALS:
        precision, scale = int(argument()), int(argument())
        return _DECIMALS[name](precision, scale)
    make = _UNIT_TYPES.get(name)
    if make is not None:
        return make(UNITS[argument()])
    if name == "FixedSizeBinary":
        return pa.binary(int(argument()))
    return pa.month_day_nano_interval() if name == "Interval" else None


def sql_literal(value: pa.Scalar) -> str:
    """Render a value as a literal of DataFusion with exactly its value and type.

    Dictionary, run-end encoded and extension scalars become their plain values.

    Raises:
        UnsupportedError: the type has no literal.
    """
    value = plain_value(value)
    dtype = value.type
    if pa.types.is_null(dtype):
        return "NULL"
    if not value.is_valid:
        return f"arrow_cast(NULL, '{name_type(dtype)}')"
    text = _natural_text(value)
    if dtype in _NATURAL:
        return text
    if pa.types.is_struct(dtype) or pa.types.is_map(dtype):
        return text
    return f"arrow_cast({text}, '{name_type(dtype)}')"


def to_bindable(value: pa.Scalar) -> pa.Scalar | None:
    """Return the value that DataFusion's bindings can bind for a plain value; None if there is none.

    They can't bind nested NULLs. A statement casts vectors to lists of doubles, so NULL needs no type.
    """
    kind = value.type
    if not pa.types.is_nested(kind):
        return value
    if not pa.types.is_list(kind) or not _is_number(kind.value_type):
        return None
    if value.is_valid:
        return value
    return pa.scalar(None) if kind.value_type == pa.float64() else None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def plain_value(value: pa.Scalar) -> pa.Scalar:
    """Return a value without dictionary, run-end encoding or extension type."""
    if isinstance(value, pa.ExtensionScalar):
        return plain_value(value.value) if value.is_valid else pa.scalar(None, value.type.storage_type)
    if isinstance(value, pa.DictionaryScalar):
        return value.value if value.is_valid else pa.scalar(None, value.type.value_type)
    if isinstance(value, pa.RunEndEncodedScalar):
        return plain_value(value.value) if value.is_valid else pa.scalar(None, value.type.value_type)
    return value


def sql_type(kind: pa.DataType) -> str | None:
    """Return the name of a type in SQL; None if it has none that means exactly this type."""
    types = pa.types
    if kind in _SQL_TYPES:
        return _SQL_TYPES[kind]
    if types.is_timestamp(kind) and kind.tz is None:
        return f"TIMESTAMP({_DIGITS[kind.unit]})"
    if types.is_decimal128(kind) and kind.scale >= 0:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if types.is_list(kind):
        item = sql_type(kind.value_type)
        return None if item is None else f"{item}[]"
    return None


def _natural_text(value: pa.Scalar) -> str:  # noqa: PLR0912 - one line per family of types
    """Return SQL text with the exact value of a scalar, and a type that can be cast to its own."""
    dtype, types = value.type, pa.types
    if types.is_boolean(dtype):
        return "TRUE" if value.as_py() else "FALSE"
    if types.is_integer(dtype):
        return _number(value.as_py())
    if types.is_floating(dtype):
        return _float(float(value.as_py()))
    if types.is_decimal(dtype):
        if dtype.scale < 0:
            raise UnsupportedError(
                f"A parameter of type {dtype} has a negative scale; bind decimal(p, s >= 0)"
            )
        return f"'{value.as_py():f}'"
    if is_text(dtype):
        return _text(value.as_py())
    if is_binary(dtype):
        return f"X'{value.as_py().hex()}'"
    if types.is_date32(dtype) or types.is_time32(dtype):
        return f"arrow_cast({_number(value.value)}, 'Int32')"
    if types.is_temporal(dtype) and not types.is_interval(dtype):
        return _number(value.value)
    if types.is_interval(dtype):
        months, days, nanoseconds = value.as_py()
        return f"'{months} months {days} days {nanoseconds} nanoseconds'"
    if types.is_struct(dtype):
        fields = (f"{_text(field.name)}, {sql_literal(value[i])}" for i, field in enumerate(dtype))
        return f"named_struct({', '.join(fields)})"
    if types.is_map(dtype):
        entries = value.values
        return f"map({_array(entries.field(0), dtype.key_type)}, {_array(entries.field(1), dtype.item_type)})"
    if types.is_list(dtype) or types.is_large_list(dtype) or types.is_fixed_size_list(dtype):
        return f"make_array({', '.join(_list_elements(value.values))})"
    raise UnsupportedError(f"A parameter of type {dtype} has no literal; bind it as another type")


def _list_elements(values: pa.Array) -> Iterable[str]:
    """Return the texts of a list's elements; numbers have no casts, since the list is cast as a whole."""
    if pa.types.is_floating(values.type):
        return ["NULL" if v is None else _float(v) for v in pc.cast(values, pa.float64()).to_pylist()]
    if pa.types.is_integer(values.type) and values.type != pa.uint64():
        return ["NULL" if v is None else _number(v) for v in values.to_pylist()]
    return [sql_literal(value) for value in values]


def _array(values: pa.Array, dtype: pa.DataType) -> str:
    return f"arrow_cast(make_array({', '.join(_list_elements(values))}), 'List({name_type(dtype)})')"


def _number(value: int) -> str:
    # Parentheses keep "a-?" from becoming the comment "a--1".
    return str(value) if value >= 0 else f"({value})"


def _float(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return f"arrow_cast('{value}', 'Float64')"
    return repr(value) if math.copysign(1.0, value) > 0 else f"({value!r})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
