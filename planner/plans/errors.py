"""Tells what errors of DataFusion mean, and translates them for clients.

Its bindings raise Exception and ValueError, without a code or a kind: the text is all that tells. Statements
in `tests/planner/plans/test_failed_statements.py` provoke the texts, so that a version of DataFusion that
says something else fails there. Panics are told from each other in `planner.bridge.run_control`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import ClassVar, Final

import pyarrow as pa
from datafusion import SessionContext, functions

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    ResourcesExhaustedError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.bridge.run_control import describe_too_large
from lance_gateway.planner.sql.rules.subqueries import QUALIFIER
from lance_gateway.planner.sql.subqueries.expressions import MORE_THAN_ONE
from lance_gateway.planner.sql.text.tokens import PlacedMessage
from lance_gateway.planner.sql.tree.dialect import find_unread

_PRIVATE_NAME = re.compile(r'"([^"]+)#\d+"|\b(\w+)#\d+\b')
# How the bindings quote an exception that was raised in Python; clients get only its message.
_PYTHON_ERROR = re.compile(r"Python error PyErr \{.*?value: (.*?), traceback: .*", re.DOTALL)
_PLANNING = ("Error during planning:", "Schema error:", "type_coercion", "This feature is not implemented:")
_DATA = (
    "Arrow error:",
    "Cast error",
    "Divide by zero",
    "Overflow",
    "Parser error",
    "Invalid argument error",
    # Raised by functions and operators because of their arguments.
    "Execution error:",
    # Raised for patterns that are computed at run time.
    "regex parse error",
    "Invalid regex",
    "exceeds size limit",
)
_UNREAD = "This syntax is not supported"
_PANIC = "panicked"
_EXHAUSTED = "Resources exhausted"
_ALLOCATION = re.compile(
    r"Failed to allocate additional ([\d.]+ \w+) for (\w+).*?\(pool_size: ([\d.]+ \w+)\)", re.DOTALL
)
# A function call with wrong argument types, which DataFusion reports as an internal error.
_NO_SIGNATURE = re.compile(
    r"Internal error: Function '(\w+)' failed to match any signature, errors: (.*?)\.?\n", re.DOTALL
)
_REASON = re.compile(
    r"Error during planning: Function '\w+' (.*?)(?=\.?,Error during planning: |$)", re.DOTALL
)
_WRAPPERS = re.compile(
    r"^(?:DataFusion error: |External error: |Context\(.*?\) caused by\s*|type_coercion\s+|caused by\s*"
    r"|Optimizer rule '.*?' failed\s*|Arrow error: External error: |Error during planning: "
    r"|Schema error: |Execution error: |Invalid argument error: )+",
    re.DOTALL,
)

_NO_NANOSECONDS = re.compile(
    r"to Nanosecond\b|to Timestamp\(ns|Overflow happened on: -?\d+ \* 1(?:000){1,3}\b"
    r"|Timestamp -?\d+ out of range"
)
_MICROSECONDS = (
    "instants before 1678 and after 2261 have no nanoseconds: give them microseconds, as in "
    "CAST(x AS TIMESTAMP(6)) or TIMESTAMP(6) '9999-12-31'"
)
_OWN_FIELD = re.compile(r', (?:\w+|"[^"]*")\."row#"(?=[,.]|$)')
"""The column of row numbers (`planner.tables.state.extended_tables`) at the end of a list of fields."""
_NO_ROW_COLUMN = re.compile(
    r'No field named (?:(?:\w+|"[^"]*")\.)*"?'
    r"(?:_rowid|_rowaddr|_row_created_at_version|_row_last_updated_at_version)\b"
)
_ROW_COLUMNS = (
    "_rowid, _row_created_at_version and _row_last_updated_at_version can be named in a SELECT from a table "
    "with stable row ids (CREATE TABLE .. WITH (stable_row_ids = true)) that the user may read as a whole; "
    "a search has none of them, and no table has _rowaddr"
)
_SIDE = re.compile(r"No field named ((?:left|right)\.)")
"""A side of EXCEPT or INTERSECT, which DataFusion writes as a join."""
_HINTS = (
    (_NO_NANOSECONDS, _MICROSECONDS),
    (
        re.compile(r"Unary operator '\+' only supports"),
        "leave the sign out, or cast what is behind it: + CAST(x AS DOUBLE)",
    ),
    (
        re.compile(r"Invalid interval arithmetic operation"),
        "multiply the number before, as in CAST(n * 3 || ' days' AS INTERVAL)",
    ),
    (
        re.compile(r"Invalid timestamp arithmetic operation: Timestamp\(.*\) \+"),
        "add an interval; a parameter says of how many days in at + CAST(? || ' days' AS INTERVAL)",
    ),
    (
        re.compile(r"Cannot coerce arithmetic expression Date\d+ \+ (?:Date\d+|Duration)"),
        "add days to a date by day + ? * INTERVAL '1 day'",
    ),
    (
        re.compile(r"not implemented: TOP"),
        "write LIMIT n at the end of the query in place of TOP n",
    ),
    (
        re.compile(r"Arithmetic Overflow in AvgAccumulator"),
        "the average has four digits more than the values: write avg(CAST(x AS DOUBLE))",
    ),
    (
        re.compile(r"only support Literal types for field at idx: 1 in Window Function"),
        "lag and lead take a constant number of rows",
    ),
    (
        re.compile(r"Cannot cast to Decimal\d+\(.*\)\. Overflowing on|Can't cast value .+ to type"),
        "TRY_CAST gives NULL for what the type does not hold",
    ),
    (
        re.compile(r"Overflow happened on: |is too large to store in a Decimal"),
        "the result has more digits than its type: compute with doubles, as in CAST(x AS DOUBLE) * y",
    ),
    (
        re.compile(r"Cannot create filter with non-boolean predicate"),
        "a condition is true, false or NULL: CAST(? AS BOOLEAN), or compare it with something",
    ),
)
"""Messages without a way out, and what to write."""
_FUNCTIONS: Final = tuple(filter(str.islower, dir(functions)))
_FIXED: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (
        # Functions of numbers that are called with lists of lists.
        re.compile(r"\AInternal error: could not cast array of type (.+?) to arrow_array"),
        lambda found: f"a function of this statement does not take values of type {found[1]}",
    ),
    (
        re.compile(r"\AInternal error: Cannot run range queries on datatype: (.+)\.\n"),
        lambda found: (
            f"a window with ORDER BY values of type {found[1]} has no RANGE: give its frame in ROWS, "
            "as in ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        ),
    ),
    (
        re.compile(re.escape(MORE_THAN_ONE) + r"(\d+)"),
        lambda found: (
            f"a subquery that stands for a value has {found[1]} rows: add a condition, an aggregate, "
            "or ORDER BY with LIMIT 1"
        ),
    ),
    (
        # DataFusion's own suggestion for cuont is cot.
        re.compile(r"\AInvalid function '(.+?)'\.\s*Did you mean '(.+?)'\?"),
        lambda found: (
            f"Invalid function {found[1]!r}. "
            f"Did you mean {(get_close_matches(found[1], _FUNCTIONS, 1) or [found[2]])[0]!r}?"
        ),
    ),
    (
        re.compile(r"\AColumn in SELECT must be in GROUP BY or an aggregate .*? column (\".+?\") must "),
        lambda found: f"Column {found[1]} must be in GROUP BY, or in an aggregate function such as min()",
    ),
    (
        re.compile(r"\A(array_repeat|array_resize): (?:requested|resulting|offset)\b.*\bexceeds"),
        lambda found: describe_too_large([found[1]]),
    ),
    (
        re.compile(r"\AInternal error: Uncomparable values"),
        lambda _: "max and min take no values of this nested type, which have no order",
    ),
    (
        re.compile(r"\AInternal error: array_resize: failed to convert size"),
        lambda _: "array_resize takes sizes from 0 on, and got a negative one",
    ),
)
"""Messages that say too little, and what they mean."""


# What the operating system says when results that don't fit into memory can't be written or read.
_NO_FILES = re.compile(r"IO error: [^\n]*\(os error (?:5|13|23|24|28|30|122)\)")


_SYNTAX = re.compile(r'SQL error: \w+\("(.*)"\)|ParserError\("(.*)"\)|SQL error: (.*)', re.DOTALL)
_PLACE = re.compile(r" at Line: (\d+), Column: (\d+)")


class QueryFailedError(LanceGatewayError):
    """DataFusion failed for a reason that is neither in the statement nor in the data."""

    status: ClassVar[str] = "INTERNAL"


class NotAggregatedError(InvalidInputError):
    """DataFusion makes no join of a correlated subquery that may have several rows."""


def schema_changed_error(sql: str) -> PreconditionError:
    """Return the error for a statement whose result has other columns than when it was prepared."""
    msg = "the result of this statement has changed since it was prepared, because a table was altered"
    return PreconditionError(f"{msg}: prepare it again: {sql}")


def result_differs_error(sql: str, promised: pa.Schema, found: pa.Schema) -> InvalidInputError:
    """Return the error for bound values with which the result has other columns than the client was told."""
    changed = [
        f"{new.name!r} would be {new.type}, and not {old.type}"
        for old, new in zip(promised, found, strict=False)
        if not old.equals(new)
    ]
    what = ", ".join(changed) or f"it would have {len(found)} columns, and not {len(promised)}"
    msg = f"the bound values give the result of this statement other columns ({what})"
    return InvalidInputError(f"{msg}: give their types in the text, as in CAST($1 AS DOUBLE): {sql}")


def misses_columns(error: Exception | None) -> bool:
    """Return whether DataFusion made no plan since columns are out of reach."""
    return "No field named" in str(error)


def is_unimplemented(error: Exception) -> bool:
    """Return whether DataFusion makes no plan of what a statement says, though nothing is wrong with it."""
    return "This feature is not implemented:" in str(error)


def _translate_syntax_error(text: str, bound: BoundStatement) -> InvalidInputError | None:
    """Return a syntax error with its place; None if the text is that of another error."""
    match = _SYNTAX.search(text)
    if match is None:
        return None
    if bound.text != bound.sql:
        # Places in what was written for DataFusion are none in the statement.
        try:
            SessionContext().sql(bound.sql)
        except Exception as error:  # noqa: BLE001 - the bindings have no types of errors
            match = _SYNTAX.search(str(error)) or match
    told = match[1] or match[2] or match[3]
    place, summary = _PLACE.search(told), _PLACE.sub("", told).replace('\\"', '"')
    if place is None:
        return bound.syntax_error(summary, "end" if summary.endswith("EOF") else None)
    return bound.syntax_error(summary, (int(place[1]), int(place[2])))


def translate_error(
    error: BaseException, bound: BoundStatement, failure: LanceGatewayError | None
) -> LanceGatewayError:
    """Translate an error of DataFusion for clients.

    Args:
        error: as DataFusion's bindings raise it.
        bound: the statement, whose private table names are removed from the message.
        failure: an error of a leaf or function of ours that caused it, if there is one.
    """
    if failure is not None:
        return failure
    if isinstance(error, LanceGatewayError):
        return error
    text = str(error)
    unreadable = _translate_syntax_error(text, bound)
    if unreadable is not None:
        return unreadable
    if bound.is_unread:
        return UnsupportedError(PlacedMessage(bound.sql, find_unread(bound.sql), _UNREAD))
    text = _PYTHON_ERROR.sub(r"\1", text)
    refused = _NO_FILES.search(text)
    if refused is not None:
        return UnavailableError(f"the statement could not use its temporary files: {refused[0]}")
    message = _PRIVATE_NAME.sub(lambda match: match[1] or match[2], text).replace(f"{QUALIFIER}.", "")
    short = _WRAPPERS.sub("", _OWN_FIELD.sub("", message)).strip().replace("\nValid fields", " Valid fields")
    mismatch = _NO_SIGNATURE.match(short)
    if mismatch is not None:
        return InvalidInputError(_describe_mismatch(mismatch[1], mismatch[2]))
    fixed = next((said(match) for pattern, said in _FIXED if (match := pattern.search(short))), None)
    if fixed is not None:
        return InvalidInputError(fixed)
    side = _SIDE.search(short)
    if side is not None and side[1] not in bound.sql:
        return UnsupportedError(
            "a subquery with EXCEPT or INTERSECT that names columns of the query around it is not supported "
            "in this statement: write NOT EXISTS or EXISTS in its place"
        )
    if "Correlated scalar subquery must be aggregated" in short:
        return NotAggregatedError(short)
    hint = next((said for pattern, said in _HINTS if pattern.search(short)), None)
    if hint is not None:
        return InvalidInputError(f"{short.rstrip('.')}; {hint}")
    if _EXHAUSTED in text:
        return ResourcesExhaustedError(_describe_exhaustion(short))
    # Its own files, of results that don't fit into memory: no fault of the statement.
    is_own = _PANIC in text or short.startswith("IO error")
    if not is_own and any(mark in text for mark in (*_PLANNING, *_DATA)):
        return InvalidInputError(f"{short} {_ROW_COLUMNS}" if _NO_ROW_COLUMN.search(short) else short)
    return QueryFailedError(short)


def _describe_mismatch(function: str, text: str) -> str:
    """Explain why no signature of a function fits its arguments."""
    reasons = dict.fromkeys(reason.rstrip(".") for reason in _REASON.findall(text))
    return f"the function {function!r} does not take these arguments: it {', or '.join(reasons)}"


def _describe_exhaustion(text: str) -> str:
    """Explain an exceeded memory limit with the name of the setting that raises it."""
    match = _ALLOCATION.search(text)
    if match is None:
        return text
    more, consumer, limit = match.groups()
    return (
        f"the statement needs more than the {limit} of memory that one statement may hold ({consumer} asked "
        f"for {more} more): read fewer rows or columns, or ask the operator to raise query_memory_bytes"
    )
