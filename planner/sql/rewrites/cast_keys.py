"""Groups by casts of a column, beside another output that is called as the column is.

    SELECT max(n) AS s, CAST(s AS TEXT) AS k FROM t GROUP BY CAST(s AS TEXT) ORDER BY max(n)
->  SELECT max(n) AS s, nullif(CAST(s AS TEXT), NULL) AS k FROM t GROUP BY CAST(s AS TEXT) ORDER BY max(n)

DataFusion 55 calls a cast as it calls what is cast, so it takes the first output for the cast, and sorts by
that one. What nullif() gives has a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.sql.edits import Edit
from planner.sql.tokens import SqlText

_CASTS = frozenset({"CAST", "TRY_CAST"})


def rewrite_cast_keys(text: SqlText) -> Iterator[Edit]:
    """Yield calls of nullif() around such casts."""
    words = text.words
    for i, word in enumerate(words):
        if word != "SELECT" or words[i - 1] == ".":
            continue
        level = list(text.level(i + 1))
        source = next((k for k in level if words[k] == "FROM" and words[k - 1] != "DISTINCT"), None)
        if source is None or not any(words[k] == "GROUP" for k in level if k > source):
            continue
        commas = [k for k in level if k < source and words[k] == ","]
        items = [
            range(k + 1, end) for k, end in zip([i, *commas], [*commas, source], strict=True) if k + 1 < end
        ]
        outputs = [text.name(item[-1]) if text.is_name(item[-1]) else None for item in items]
        for place, item in enumerate(items):
            cast = _find_cast(text, item)
            named = {text.name(k) for k in cast if text.is_name(k)}
            if named.intersection(outputs[:place] + outputs[place + 1 :]):
                yield from Edit.wrap(text.start(cast[0]), text.end(cast[-1]), "nullif(", ", NULL)", mend=True)


def _find_cast(text: SqlText, item: range) -> range:
    """Return the tokens of a column that is a cast, without its name; an empty range for others."""
    words = text.words
    if words[item[0]] in _CASTS and words[item[0] + 1] == "(":
        last = text.closing(item[0] + 1)
        return range(item[0], last + 1) if words[last + 1] == "AS" or last + 2 >= item.stop else range(0)
    if "::" not in words[item.start : item.stop]:
        return range(0)
    return range(item[0], item[-1] - 1) if words[item[-1] - 1] == "AS" else item
