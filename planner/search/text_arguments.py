"""What the arguments of a text search mean for one table."""

from __future__ import annotations

import pyarrow as pa

from execnodes.text.query import TextQuery
from execnodes.text.query_syntax import TEXT_OPTIONS, parse_text_query
from planner.search.arguments import Arguments, told
from planner.search.call import Value

_ANY_WORD = "word"
"""Stands for a query that is a parameter whose value is not known yet."""


def text_query(arguments: Arguments, *, column: str = "column", query: str = "query") -> TextQuery:
    """The text query that a call asks for.

    Args:
        arguments: of the call.
        column: name of the argument that names the column, or several.
        query: name of the argument that holds the query.

    Raises:
        InvalidInputError: an argument that can't be, with its name and value.
        NotFoundError: no such column.
    """
    named = arguments.column_name(column)
    names = named if isinstance(named, tuple | list) and named else (named,)
    columns = [_text_column(arguments, column, name) for name in names]
    text = arguments.values.get(query, _ANY_WORD)
    if not isinstance(text, str):
        raise arguments.refused(f"{query} must be a text, not {told(text)}")
    options = {name: arguments.values[name] for name in TEXT_OPTIONS if name in arguments.values}
    found = parse_text_query(columns, text, options)
    for name in found.columns:  # a structured query names columns of its own
        _text_column(arguments, column, name)
    return found


def _text_column(arguments: Arguments, argument: str, name: Value) -> str:
    field = arguments.named_column(argument, name)
    kind = field.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        msg = f"column {field.name!r} of table {arguments.table!r} is no text: it is {field.type}"
        raise arguments.refused(msg)
    name_of_column: str = field.name
    return name_of_column
