"""Formats of times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.forms.calls import fill, list_calls, put, wrong_count
from lance_gateway.planner.sql.tree.tree import Tree

_READ_TIME: Final = "TO_TIMESTAMP"
_FUNCTIONS: Final = ("TO_CHAR", "TO_DATE", _READ_TIME, "DATE_FORMAT", "STRFTIME")
_NUMBERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%3f", "US": "%6f",
        "FF3": "%3f", "FF6": "%6f", "YYYY": "%Y", "YY": "%y", "MM": "%m", "DDD": "%j", "DD": "%d",
        "IYYY": "%G", "IY": "%g", "IW": "%V", "ID": "%u", "Q": "%q",
    }
)  # fmt: skip
"""Pattern of PostgreSQL, in any case -> that of DataFusion."""
_NAMES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "Month": ("%B", ""), "MONTH": ("%B", "upper"), "month": ("%B", "lower"),
        "Mon": ("%b", ""), "MON": ("%b", "upper"), "mon": ("%b", "lower"),
        "Day": ("%A", ""), "DAY": ("%A", "upper"), "day": ("%A", "lower"),
        "Dy": ("%a", ""), "DY": ("%a", "upper"), "dy": ("%a", "lower"),
        "AM": ("%p", ""), "PM": ("%p", ""), "am": ("%P", ""), "pm": ("%P", ""),
    }
)  # fmt: skip
"""Pattern -> that of DataFusion, and the function that gives it the right case."""
_PADDED: Final = frozenset({"%B", "%A"})
_WIDTH: Final = 9
"""Characters to which PostgreSQL fills names of months and days."""
_UNKNOWN: Final = (
    "SSSSS", "SSSS", "Y,YYY", "YYY", "Y", "A.M.", "P.M.", "a.m.", "p.m.", "IYY", "I", "IDDD", "D", "WW", "W",
    "CC", "J", "RM", "rm", "TZH", "TZM", "TZ", "tz", "OF", "BC", "AD", "B.C.", "A.D.", "FF1", "FF2", "FF4",
    "FF5", "FX", "TM", "TH", "th", "SP",
)  # fmt: skip
_LONG: Final = 3


def _one_of(patterns: list[str]) -> str:
    return "|".join(map(re.escape, sorted(patterns, key=len, reverse=True)))


_PATTERN: Final = re.compile(
    rf'(?P<text>"[^"]*")|(?P<fill>FM)?(?P<name>{_one_of([*_NAMES])})'
    rf"|(?P<unknown>{_one_of([one for one in _UNKNOWN if len(one) > _LONG])})"
    rf"|(?P<fill_number>FM)?(?P<number>(?i:{_one_of([*_NUMBERS])}))"
    rf"|(?P<other>{_one_of([one for one in _UNKNOWN if len(one) <= _LONG])})|(?P<plain>.)",
    re.DOTALL,
)
_OF_NUMBERS: Final = re.compile(r"(?=.*[09])(?:FM|MI|PR|SG|PL|TH|EEEE|[09.,DGLSVB$ -])+", re.IGNORECASE)
_LETTER: Final = re.compile(r"[A-Za-z]")
_NANOSECONDS: Final = re.compile(r"(?<!%)((?:%%)*)%f")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of what a format gives.

    Attributes:
        format: of DataFusion.
        function: that is applied to what it gives; empty for none.
        width: to which it is filled with spaces; 0 for as it is.
    """

    format: str
    function: str = ""
    width: int = 0

    def write(self, value: exp.Expr) -> exp.Expr:
        """Return the call that gives this part of a time."""
        shown = fill("to_char($1, $2)", value, exp.Literal.string(self.format))
        if self.function:
            shown = fill(f"{self.function}($1)", shown)
        return fill(f"rpad($1, {self.width})", shown) if self.width else shown


_REPLACED: Final = (
    ("HH24", "%H"), ("HH12", "%I"), ("MS", "%3f"), ("US", "%6f"), ("YYYY", "%Y"), ("YY", "%y"), ("MM", "%m"),
    ("MI", "%M"), ("SS", "%S"), ("DD", "%d"), ("Month", "%B"), ("Mon", "%b"), ("Day", "%A"), ("Dy", "%a"),
)  # fmt: skip
_COMPUTED: Final = (
    "CASE WHEN $1 LIKE '%\\%%' THEN $1 ELSE "
    + reduce(lambda text, pair: f"replace({text}, '{pair[0]}', '{pair[1]}')", _REPLACED, "$1")
    + " END"
)
"""A format that is not a literal; no pattern is found in what another one became."""


def time_formats(tree: Tree) -> None:
    """Write the formats of PostgreSQL as those of DataFusion, which takes them for text.

        SELECT to_char(at, 'YYYY-MM-DD HH24:MI') AS x, to_char(at, 'FMDD. Month') AS y FROM t
    ->  SELECT to_char(at, '%Y-%m-%d %H:%M') AS x, (to_char(at, '%-d. ') || rpad(to_char(at, '%B'), 9)) AS y
        FROM t

    A format with % is DataFusion's own, and stays. One that is not a literal is translated when it is
    computed, by replace().

    Raises:
        InvalidInputError: strftime() has other arguments.
        UnsupportedError: a format has a pattern that DataFusion lacks, or is one of numbers or of Java.
    """
    for call in list_calls(tree, _FUNCTIONS):
        name, arguments = call.name.upper(), call.expressions
        if name == "STRFTIME":
            put(tree, call, _rename(tree, call))
            continue
        written = _read_literal(arguments[1]) if len(arguments) == 2 else None
        if written is None and name == "TO_CHAR" and len(arguments) == 2:
            tree.replace(arguments[1], fill(_COMPUTED, arguments[1]))
            continue
        if written is None or "%" in written:
            continue
        what = ""
        if name == "TO_CHAR" and _OF_NUMBERS.fullmatch(written):
            what = "to_char() of numbers is not supported: use CAST(.. AS VARCHAR), round() and lpad()"
        elif name == "DATE_FORMAT" and _LETTER.search(written):
            what = (
                "date_format() takes formats with %, as in '%Y-%m-%d'; to_char() takes PostgreSQL's "
                "'YYYY-MM-DD', and the session option dialect those of other databases"
            )
        if what:
            raise tree.error(call, what, UnsupportedError)
        if _LETTER.search(written):
            _translate(tree, call, list(_join(_read(tree, call, written))))


def _read_literal(argument: exp.Expr) -> str | None:
    """Return the value of an argument that is a text; None for another."""
    return argument.name if isinstance(argument, exp.Literal) and argument.is_string else None


def _rename(tree: Tree, call: exp.Anonymous) -> exp.Expr:
    """Write strftime() as to_char(); the format may be first, as in SQLite."""
    if len(call.expressions) != 2:
        raise wrong_count(tree, call, "a time and a format")
    value, pattern = call.expressions
    if _read_literal(value) is not None and _read_literal(pattern) is None:
        value, pattern = pattern, value
    written = _read_literal(pattern)
    if written is not None:  # DataFusion's %f has nine digits.
        pattern = exp.Literal.string(_NANOSECONDS.sub(r"\1%6f", written))
    return fill("to_char($1, $2)", value, pattern)


def _translate(tree: Tree, call: exp.Anonymous, parts: list[_Part]) -> None:
    value, pattern = call.expressions
    if call.name.upper() != "TO_CHAR":
        tree.replace(pattern, exp.Literal.string("".join(part.format for part in parts)))
        put(tree, call, call.copy())
        return
    shown, *others = (part.write(value) for part in parts)
    for other in others:
        shown = fill("$1 || $2", shown, other)
    put(tree, call, exp.Paren(this=shown) if others else shown)


def _read(tree: Tree, call: exp.Expr, written: str) -> Iterator[_Part]:
    for found in _PATTERN.finditer(written):
        groups = found.groupdict()
        unknown = groups["unknown"] or groups["other"]
        if unknown:
            what = (
                f"The pattern {unknown} in the format {written!r} is not supported: there are YYYY, MM, DD, "
                'HH24, MI, SS, MS, US, Month, Mon, Day, Dy, AM and Q, text in "..", and formats with %, '
                "as in '%Y'"
            )
            raise tree.error(call, what, UnsupportedError)
        if groups["number"]:
            shown = _NUMBERS[groups["number"].upper()]
            yield _Part(shown.replace("%", "%-") if groups["fill_number"] else shown)
        elif groups["name"]:
            shown, function = _NAMES[groups["name"]]
            yield _Part(shown, function, 0 if groups["fill"] or shown not in _PADDED else _WIDTH)
        else:
            yield _Part((groups["text"] or f'"{found[0]}"')[1:-1])


def _join(parts: Iterator[_Part]) -> Iterator[_Part]:
    """Yield the parts, those that are formats alone as one."""
    plain = ""
    for part in parts:
        if not part.function and not part.width:
            plain += part.format
            continue
        if plain:
            yield _Part(plain)
        plain = ""
        yield part
    if plain:
        yield _Part(plain)
