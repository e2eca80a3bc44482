"""Which SQL expressions have the same value for the same row, at any time: DataFusion tells it per function.

    lower(s) = 'x'        follows from the row
    random(), uuid()      another value for every row and run
    now(), current_date   one value for a run, and another for the next
    max(n), (SELECT ..)   follows from other rows

The volatility of a function is read from DataFusion's `information_schema.routines`, and the functions of an
expression from the expression as an object, in which they have their own names (`rand` is `random` there).
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

import datafusion
from datafusion import Expr

_ROW_BY_ROW: Final = frozenset(
    {
        "Alias",
        "Between",
        "BinaryExpr",
        "Case",
        "Cast",
        "Column",
        "InList",
        "IsFalse",
        "IsNotFalse",
        "IsNotNull",
        "IsNotTrue",
        "IsNotUnknown",
        "IsNull",
        "IsTrue",
        "IsUnknown",
        "Like",
        "Literal",
        "Negative",
        "Not",
        "RLike",
        "ScalarFunction",
        "SimilarTo",
        "TryCast",
    }
)
"""Variants of expressions all of whose parts are their operands."""
_CALLED: Final = {
    "AggregateFunction": "an aggregate",
    "Exists": "a subquery",
    "HigherOrderFunction": "a lambda",
    "InSubquery": "a subquery",
    "OuterReferenceColumn": "a column of another table",
    "Placeholder": "a parameter",
    "ScalarSubquery": "a subquery",
    "ScalarVariable": "a variable",
    "SetComparison": "a subquery",
    "Unnest": "unnest",
    "WindowFunction": "a window function",
}
_LEAVES: Final = frozenset({"Column", "Literal"})
_ROUTINES: Final = (
    "SELECT routine_name, is_deterministic FROM information_schema.routines WHERE function_type <> 'TABLE'"
)


@cache
def _list_functions() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of DataFusion's deterministic functions, and of the others, with aliases."""

    def read() -> tuple[frozenset[str], frozenset[str]]:
        # One partition and nothing to divide: DataFusion's own threads may all be waiting for this one.
        config = datafusion.SessionConfig().with_information_schema(enabled=True).with_target_partitions(1)
        rows = datafusion.SessionContext(config).sql(_ROUTINES).to_pylist()
        unstable = {row["routine_name"] for row in rows if not row["is_deterministic"]}
        return frozenset(row["routine_name"] for row in rows) - unstable, frozenset(unstable)

    # Never on the caller's thread: it may be one of DataFusion's own, and DataFusion, entered a second time
    # there, ends the process.
    with ThreadPoolExecutor(1, thread_name_prefix="routines") as thread:
        return thread.submit(read).result()


def list_functions() -> frozenset[str]:
    """Return the names, in lower case, of DataFusion's functions."""
    return frozenset().union(*_list_functions())


def list_deterministic_functions() -> frozenset[str]:
    """Return the names, in lower case, of DataFusion's deterministic functions."""
    return _list_functions()[0]


def has_unstable_call(words: Iterable[str]) -> bool:
    """Return whether the words of a statement include the name of a function that is not deterministic.

    For statements that are not planned yet. A column of such a name counts, too: the answer errs on the side
    of being unstable.

    Args:
        words: of the statement, in any case, without quotes.
    """
    unstable = _list_functions()[1]
    return any(word.lower() in unstable for word in words)


def list_subexpressions(expression: Expr) -> Iterator[Expr]:
    """Return an expression and its parts, in no particular order.

    Aggregates, windows and subqueries are included, but not their parts.
    """
    stack = [expression]
    while stack:
        found = stack.pop()
        yield found
        kind = found.variant_name()
        if kind in _ROW_BY_ROW and kind not in _LEAVES:
            stack += found.rex_call_operands()


def find_unstable_parts(expression: Expr, registered: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the parts of an expression that do not depend on the row alone.

    Args:
        expression: as DataFusion parsed it, or as it stands in a plan.
        registered: names of functions that are known to be deterministic, beside DataFusion's own.

    Returns:
        Names of functions, and what else it is ("a subquery", "an aggregate"), in alphabetical order. A
        function that DataFusion does not list counts as unstable.
    """
    stable = list_deterministic_functions() | registered
    parts: set[str] = set()
    for part in list_subexpressions(expression):
        kind = part.variant_name()
        if kind not in _ROW_BY_ROW:
            parts.add(_CALLED.get(kind, kind))
        elif kind == "ScalarFunction" and (name := part.rex_call_operator()) not in stable:
            parts.add(name)
    return tuple(sorted(parts))


def is_deterministic(expression: Expr, registered: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression always has the same value for the same row."""
    return not find_unstable_parts(expression, registered)
