"""Functions as operators: those of SHOW FUNCTIONS with their signatures, and those that have none."""

# ruff: noqa: E501 - rows of tables

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.fuzz.typed.operators import Operator
from tests.fuzz.typed.types import Spelling

_GROUPS = {
    "String": "text", "Boolean": "truth", "Date": "date", "Timestamp(ns)": "moment", 'Timestamp(ns, "+TZ")': "instant",
    "Time(µs)": "clock", "Binary": "bytes", "Int8": "number", "Int16": "number", "Int32": "number", "Int64": "number",
    "UInt64": "number", "Float32": "number", "Float64": "number",
}  # fmt: skip
_COUNTS = "lit:1|2|0|-1|3|NULL"
# Lists of numbers without a bound, and what follows from the time, from chance or from the engine.
_LEFT_OUT = {"range", "generate_series", "random", "uuid", "now", "version"}
_LISTS = {
    "list": "array_length array_ndims array_dims array_distinct array_reverse array_sort array_max array_min array_pop_back "
    "array_pop_front empty cardinality flatten array_any_value array_compact array_sum array_avg",
    "list list": "array_concat array_except array_intersect array_union array_has_all array_has_any arrays_overlap",
    "list element": "array_append array_position array_positions array_remove array_remove_all array_has",
    f"list {_COUNTS}": "array_element array_resize",
    f"list {_COUNTS} {_COUNTS}": "array_slice",
    "list lit:','|'-'": "array_to_string",
}
"""Functions of lists by what they take; DataFusion lists no signatures of them."""
_PLAIN = {
    "number": "isnan to_timestamp_seconds", "number number": "gcd lcm", "text text": "concat nvl2",
    "calendar": "to_unixtime to_timestamp_micros last_day", "text": "to_date to_timestamp_micros to_timestamp",
}  # fmt: skip
_DIFFERENT = {
    "postgres": {"to_hex", "to_char", "date_format", "log", "encode", "initcap", "array_dims", "position", "date_trunc", "array_ndims", "round"},
    "duckdb": {
        "to_char", "encode", "decode", "contains", "position", "regexp_replace", "date_trunc", "array_slice", "array_resize",
        "array_position", "array_length", "to_timestamp", "log", "levenshtein", "array_has", "array_has_any", "array_has_all",
        "strpos", "array_element", "md5", "sha256", "regexp_like", "round", "array_intersect", "array_distinct", "to_hex", "array_to_string", "substr", "substring", "string_to_array", "array_concat", "array_sort", "overlay", "split_part",
    },
}  # fmt: skip
"""Functions that other engines have by this name and mean otherwise: docs/sql.md says how."""


@cache
def functions() -> Sequence[Operator]:
    """Return one operator for each function and each sort of arguments."""
    with closing(QueryEngine(Catalog.open(tempfile.mkdtemp()), partitions=1)) as engine:
        rows = engine.execute("SHOW FUNCTIONS").read_all().to_pylist()
    found = {
        (row["function_name"], taken, _GROUPS.get(row["return_type"], ""))
        for row in rows
        if row["function_type"] == "SCALAR" and (taken := _taken(row["parameter_types"])) is not None
    }
    return tuple(_operator(*one) for one in (*sorted(found), *_iterate_listed()) if one[0] not in _LEFT_OUT)


def _taken(types: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the groups of a signature; numbers behind the first are small constants."""
    groups = [_GROUPS.get(one) for one in types or ()]
    if not groups or None in groups:
        return None
    whole = {"Int32", "Int64"}
    return tuple(
        _COUNTS if index and types and types[index] in whole else str(group)
        for index, group in enumerate(groups)
    )


def _iterate_listed() -> Iterator[tuple[str, tuple[str, ...], str]]:
    for takes, names in (*_LISTS.items(), *_PLAIN.items()):
        for name in names.split():
            yield name, tuple(takes.split()), ""


def _operator(name: str, takes: tuple[str, ...], gives: str) -> Operator:
    text = f"{name}({', '.join(f'{{{index}}}' for index in range(len(takes)))})"
    spelling = Spelling(
        text,
        *(
            None if name in _DIFFERENT[engine] or name.startswith("json") else text
            for engine in ("postgres", "duckdb")
        ),
    )
    return Operator(f"{name}()", spelling, takes, gives)
