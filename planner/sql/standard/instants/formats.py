"""Translates the formats of PostgreSQL in calls that write and read instants; DataFusion takes them for text.

    to_char(at, 'YYYY-MM-DD HH24:MI')
->  to_char(at, '%Y-%m-%d %H:%M')
    to_char(at, 'FMDD. Month')
->  (to_char(at, '%-d. ') || rpad(to_char(at, '%B'), 9))

A format with % is DataFusion's own, and stays. So does one that is no literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from planner.sql.edits import Edit
from planner.sql.standard.spellings.calls import Call, find_calls
from planner.sql.tokens import STRING, SqlText

_WRITES: Final = frozenset({"TO_CHAR"})
_READ_INSTANT: Final = "TO_TIMESTAMP"
_READS: Final = frozenset({"TO_DATE", _READ_INSTANT})
_JAVA: Final = frozenset({"DATE_FORMAT"})
_STRFTIME: Final = frozenset({"STRFTIME"})
FORMATTED: Final = _WRITES | _READS | _JAVA | _STRFTIME
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
_PATTERN: Final = re.compile(
    r'(?P<text>"[^"]*")|(?P<fill>FM)?(?P<name>'
    + "|".join(map(re.escape, sorted(_NAMES, key=len, reverse=True)))
    + r")|(?P<unknown>"
    + "|".join(f"{re.escape(one)}" for one in sorted(_UNKNOWN, key=len, reverse=True) if len(one) > 3)
    + r")|(?P<fill_number>FM)?(?P<number>(?i:"
    + "|".join(sorted(_NUMBERS, key=len, reverse=True))
    + r"))|(?P<other>"
    + "|".join(f"{re.escape(one)}" for one in sorted(_UNKNOWN, key=len, reverse=True) if len(one) <= 3)
    + r")|(?P<plain>.)",
    re.DOTALL,
)
_OF_NUMBERS: Final = re.compile(r"(?=.*[09])(?:FM|MI|PR|SG|PL|TH|EEEE|[09.,DGLSVB$ -])+", re.IGNORECASE)
_LETTER: Final = re.compile(r"[A-Za-z]")


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

    @property
    def is_plain(self) -> bool:
        return not self.function and not self.width


def translate_formats(text: SqlText) -> Iterator[Edit]:
    """Yield edits that translate the formats.

    Raises:
        UnsupportedError: a format has a pattern that DataFusion lacks, or is one of numbers or of Java.
    """
    for call in find_calls(text, FORMATTED):
        if call.name.upper() in _STRFTIME:
            yield _rename(call)
            continue
        if len(call.arguments) != 2:
            continue
        written = _literal(text, call.arguments[1])
        if written is None or "%" in written:
            continue
        if call.name.upper() in _WRITES and _OF_NUMBERS.fullmatch(written):
            raise call.refuse(
                "to_char() of numbers is not offered: use CAST(.. AS VARCHAR), round() and lpad()"
            )
        if not _LETTER.search(written):
            continue
        if call.name.upper() in _JAVA:
            raise call.refuse(
                "date_format() takes formats with %, as in '%Y-%m-%d'; to_char() takes PostgreSQL's "
                "'YYYY-MM-DD', and the session option dialect those of other databases"
            )
        yield _translate(call, written)


def _literal(text: SqlText, argument: range) -> str | None:
    """Return the value of an argument that is a text; None for another."""
    if text.words[argument.start : argument.stop] != (STRING,):
        return None
    return text.tokens[argument.start].text


def _rename(call: Call) -> Edit:
    """Return an edit that writes strftime() as to_char(); the format may be first, as in SQLite."""
    if len(call.arguments) != 2:
        raise call.refuse_count("an instant and a format")
    value, pattern = call.arguments
    if _literal(call.text, value) is not None and _literal(call.text, pattern) is None:
        value, pattern = pattern, value
    written = _literal(call.text, pattern)
    # DataFusion's %f has nine digits.
    shown: str | range = (
        pattern if written is None else _quote(re.sub(r"(?<!%)((?:%%)*)%f", r"\1%6f", written))
    )
    return call.write("to_char(", value, ", ", shown, ")")


def _translate(call: Call, written: str) -> Edit:
    parts = list(_join(_read(call, written)))
    value = call.arguments[0]
    shown = _quote("".join(part.format for part in parts))
    if call.name.upper() == _READ_INSTANT:
        # What else is written in another way around it names the output.
        literal = call.arguments[1].start
        return Edit.replace(call.text.start(literal), call.text.end(literal), shown)
    if call.name.upper() in _READS:
        return call.write(f"{call.name}(", value, f", {shown})")
    pieces: list[str | range] = []
    for part in parts:
        before = f"{part.function}(" if part.function else ""
        behind = ")" if part.function else ""
        if part.width:
            before, behind = f"rpad({before}", f"{behind}, {part.width})"
        pieces += [" || ", f"{before}to_char(", value, f", {_quote(part.format)}){behind}"]
    brackets = ("(", ")") if len(parts) > 1 else ("", "")
    return call.write(brackets[0], *pieces[1:], brackets[1])


def _read(call: Call, written: str) -> Iterator[_Part]:
    for found in _PATTERN.finditer(written):
        groups = found.groupdict()
        unknown = groups["unknown"] or groups["other"]
        if unknown:
            raise call.refuse(
                f"The pattern {unknown} in the format {written!r} is not offered: there are YYYY, MM, DD, "
                'HH24, MI, SS, MS, US, Month, Mon, Day, Dy, AM and Q, text in "..", and formats with %, '
                "as in '%Y'"
            )
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
        if part.is_plain:
            plain += part.format
            continue
        if plain:
            yield _Part(plain)
        plain = ""
        yield part
    if plain:
        yield _Part(plain)


def _quote(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
