"""Arguments at the edges of their types, and the calls that are made of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

ORDINARY: Mapping[str, str] = {
    "int": "3",
    "float": "1.5",
    "text": "'abc'",
    "date": "DATE '2024-02-29'",
    "moment": "TIMESTAMP '2024-02-29 12:30:00'",
    "interval": "INTERVAL '1 day'",
    "list": "[1, 2, 3]",
    "bytes": "X'0102'",
}
"""One value of each kind that most functions take."""

EDGES: Mapping[str, Sequence[str]] = {
    "int": (
        "0",
        "-1",
        "2147483647",
        "-2147483648",
        "9223372036854775807",
        "(-9223372036854775807 - 1)",
        "CAST(NULL AS BIGINT)",
        "CAST(255 AS TINYINT UNSIGNED)",
        "CAST(-128 AS TINYINT)",
        "arrow_cast('18446744073709551615', 'UInt64')",
    ),
    "float": (
        "0.0",
        "-0.0",
        "'NaN'::double",
        "'Infinity'::double",
        "'-Infinity'::double",
        "1e308::double",
        "5e-324::double",
        "CAST(NULL AS DOUBLE)",
        "99999999999999999999999999999999999999::decimal(38, 0)",
    ),
    "text": (
        "''",
        "'%'",
        "'((('",
        "'ä€😀'",
        "repeat('x', 100000)",
        "CAST(NULL AS TEXT)",
        "'-9223372036854775808'",
        "'9999-12-31T23:59:59'",
        "arrow_cast('abc', 'Dictionary(Int32, Utf8)')",
    ),
    "date": (
        "arrow_cast(2147483647, 'Date32')",
        "arrow_cast(-2147483648, 'Date32')",
        "DATE '0001-01-01'",
        "DATE '9999-12-31'",
        "CAST(NULL AS DATE)",
    ),
    "moment": (
        "arrow_cast(9223372036854775807, 'Timestamp(s)')",
        "arrow_cast(-9223372036854775807, 'Timestamp(s)')",
        "arrow_cast(9223372036854775807, 'Timestamp(ns)')",
        "arrow_cast(-9223372036854775807, 'Timestamp(ns)')",
        "arrow_cast(9223372036854775807, 'Timestamp(ms, \"Europe/Berlin\")')",
        "CAST(NULL AS TIMESTAMP)",
        "arrow_cast(arrow_cast(86399999999999, 'Int64'), 'Time64(ns)')",
    ),
    "interval": (
        "INTERVAL '0 day'",
        "INTERVAL '-1 month'",
        "INTERVAL '2147483647 month'",
        "INTERVAL '-2147483647 day'",
        "INTERVAL '2562047 hours'",
        "INTERVAL '1 nanosecond'",
        "CAST(NULL AS INTERVAL)",
    ),
    "list": (
        "[]",
        "[NULL]",
        "CAST(NULL AS BIGINT[])",
        "[[1], [NULL], []]",
        "[[[[[[[[1]]]]]]]]",
        "['a', NULL, '']",
        "arrow_cast([1, 2, 3], 'FixedSizeList(3, Int64)')",
        "[9223372036854775807, -1]",
        "[named_struct('a', 1)]",
    ),
    "bytes": ("X''", "X'ff'", "CAST(NULL AS BYTEA)", "arrow_cast('abc', 'FixedSizeBinary(3)')"),
}
"""Values at which arithmetic, lengths and calendars end, by kind."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call of one function.

    Attributes:
        function: its name.
        arguments: SQL expressions.
        form: `constant`, `column` or `window`: folded while planning, or computed for rows.
    """

    function: str
    arguments: tuple[str, ...]
    form: str

    @property
    def sql(self) -> str:
        """The statement."""
        name = f'"{self.function}"'
        if self.form == "constant":
            return f"SELECT {name}({', '.join(self.arguments)}) AS x"
        # Two equal rows: values that are computed for arrays take other ways than those of constants.
        row = ", ".join(("1", *self.arguments))
        names = [f"a{number}" for number in range(len(self.arguments))]
        over = " OVER (ORDER BY k)" if self.form == "window" else ""
        rows = f"(VALUES ({row}), ({row})) AS t({', '.join(['k', *names])})"
        return f"SELECT {name}({', '.join(names)}){over} AS x FROM {rows}"


def iterate_kinds(most: int) -> Iterator[tuple[str, ...]]:
    """Yield the kinds of the arguments of calls with up to `most` arguments."""
    for count in range(most + 1):
        yield from product(ORDINARY, repeat=count)


def iterate_edges(kinds: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield arguments of these kinds: one of them at an edge, then two."""
    ordinary = [ORDINARY[kind] for kind in kinds]
    yield tuple(ordinary)
    for place, kind in enumerate(kinds):
        for edge in EDGES[kind]:
            yield (*ordinary[:place], edge, *ordinary[place + 1 :])
    for first, second in combinations(range(len(kinds)), 2):
        for one, other in product(EDGES[kinds[first]], EDGES[kinds[second]]):
            values = [*ordinary]
            values[first], values[second] = one, other
            yield tuple(values)
