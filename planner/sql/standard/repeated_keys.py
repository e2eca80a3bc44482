"""Leaves out keys of GROUP BY that stand there already, over which DataFusion's plans fail.

The rule of its optimizer that leaves them out is not applied: see `planner.bridge.plan_reading.WRONG_RULES`.

    SELECT k, k AS other, count(*) FROM t GROUP BY 1, 2
->  SELECT k, k AS other, count(*) FROM t GROUP BY 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from memwal.transforms.determinism import has_unstable_call
from planner.sql.edits import Edit
from planner.sql.standard.query_bodies import find_bodies, find_outputs, outside, split, split_alias
from planner.sql.tokens import SqlText, quote

_AFTER_KEYS: Final = frozenset({"HAVING", "QUALIFY", "WINDOW"})
_SETS: Final = frozenset({"GROUPING", "ROLLUP", "CUBE", "ALL", "("})


def leave_out_repeated_keys(text: SqlText) -> Iterator[Edit]:
    """Yield edits that leave keys out."""
    for body in find_bodies(text):
        for operand in body.operands:
            outputs = find_outputs(text, operand)
            keys = _find_keys(text, range(outputs[-1].stop, operand.stop)) if outputs else ()
            seen: set[tuple[str, ...]] = set()
            for key in keys:
                meant = _read_key(text, key, outputs)
                if meant and meant in seen:
                    yield Edit.replace(text.start(key.start - 1), text.end(key.stop - 1), "")
                seen.add(meant)


def _find_keys(text: SqlText, tokens: range) -> Sequence[range]:
    """Return the tokens of each key of GROUP BY; nothing if it has sets of keys."""
    words = text.words
    level = list(outside(text, tokens))
    first = next((i + 2 for i in level if words[i : i + 2] == ("GROUP", "BY")), tokens.stop)
    end = next((i for i in level if i >= first and words[i] in _AFTER_KEYS), tokens.stop)
    keys = list(split(text, range(first, end))) if first < end else []
    return () if any(not key or words[key.start] in _SETS for key in keys) else keys


def _read_key(text: SqlText, key: range, outputs: Sequence[range]) -> tuple[str, ...]:
    """Return the words of a key, or of the output whose number it is; nothing if it may have other values."""
    words = text.words
    if len(key) == 1 and words[key.start] == "0":
        number = text.tokens[key.start].text
        before = outputs[: int(number)] if number.isdecimal() else ()
        if not before or len(before) < int(number) or any(words[one.stop - 1] == "*" for one in before):
            return ()
        key, _ = split_alias(text, before[-1])
    if "?" in words[key.start : key.stop] or has_unstable_call(words[key.start : key.stop]):
        return ()
    return tuple(
        quote(text.name(i)) if text.is_name(i) else text.sql[text.start(i) : text.end(i)] for i in key
    )
