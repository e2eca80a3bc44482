"""Differences that are known: those that are meant, which docs/sql.md lists, and those that are being mended."""

# ruff: noqa: E501 - rows of tables

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A difference.

    Attributes:
        reason: Why it is none, or what is wrong.
        judge: Expression for who says so.
        text: Expression for the statement.
        detail: Expression for what differs.
    """

    reason: str
    judge: str = ""
    text: str = ""
    detail: str = ""

    def fits(self, judge: str, text: str, detail: str) -> bool:
        """Return whether a difference is this one."""
        pairs = ((self.judge, judge), (self.text, text), (self.detail, detail))
        return all(re.search(wanted, there, re.DOTALL) is not None for wanted, there in pairs)


MEANT: Sequence[Known] = (
    Known("`round(2.5::DOUBLE)`", "postgres", r"round\(", r"[.5]"),
    Known("`s IS NULL` of a struct", "postgres", r"struct_\w+\)? IS (NOT )?NULL|nullif|IS NULL THEN"),
    Known("the year before 1", "postgres", "extract|date_part|to_char|date_trunc", r"-62|BC"),
    Known("NaN that is computed", "place", "", "NaN"),
    Known("functions of lists beside NULL", "postgres|duckdb", r"array_(has|remove)\w*\("),
    Known("a number that no integer holds", "refused", "", "FACTORIAL"),
    Known(
        "functions of `REAL`",
        "postgres|duckdb",
        r"(exp|cosh|sinh|tan|degrees|power|log)\w*\(.*(float|vector)_",
        "inf",
    ),
    Known("`upper('ß')`", "postgres|duckdb", "upper|initcap", "ß|SS"),
    Known("a pattern that is none", "refused", "", "Regular expression did not compile"),
    Known("the least of an integer type", "refused", "", "overflow on abs"),
    Known(
        "the least of an integer type",
        "postgres|duckdb",
        r"-\(?t\.",
        r"-(128|32768|2147483648|9223372036854775808)\b",
    ),
    Known("`r = 4.44` of a `REAL`", "duckdb", r"(float|vector)_"),
    Known(
        "a text beside `+`",
        "refused",
        "",
        "type|types|not supported|not implemented|coerc|comparable|Unary operator",
    ),
    Known("timestamps of seconds beside finer ones", "refused", "", "UnsupportedError"),
    Known(
        "far dates and nanoseconds",
        "refused|place|constant|state",
        detail="instants before 1678",
    ),
)
"""What stays; docs/sql.md has a row for each reason."""
PENDING: Sequence[Known] = (
    Known("F3", "place scalar subquery", detail="refused:"),
    Known("texts beside numbers in CASE", "", r"CASE .*'[\d.]+'"),
    Known("F16", detail="Decimal overflow while applying"),
    Known("F20", "", r"\$\d", r"is not comparable|Boolean, Utf8|Utf8, Boolean|non-boolean predicate"),
    Known("F5", detail="Failed to coerce types .* in BETWEEN"),
    Known("F18", "fault", r"log\("),
    Known("F14", "postgres|duckdb", r"sign\(", "NaN"),
)  # fmt: skip
"""What is wrong and is being mended; `reports.txt` has cases of it."""


def known(judge: str, text: str, detail: str, *, pending: bool = True) -> Known | None:
    """Return the known difference that this one is, or None; `pending` is whether such count."""
    listed = (*PENDING, *MEANT) if pending else MEANT
    return next((one for one in listed if one.fits(judge, text, detail)), None)
