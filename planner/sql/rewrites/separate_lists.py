"""Rewrites lists of values that DataFusion 55 would combine wrongly.

    WHERE a IN (1, 2) AND a NOT IN (NULL, 2)
->  WHERE a IN (1, 2) AND nullif(a, NULL) NOT IN (NULL, 2)
    WHERE b IN (0, 1) AND b IN (a, 1)
->  WHERE b IN (0, 1) AND nullif(b, NULL) IN (a, 1)

The simplifier combines two lists for one operand, and compares their elements as expressions: NULL is lost,
and a column equals only itself. Equalities joined with OR become lists. Lists for different operands are not
combined, and the simplifier can't see that `nullif(a, NULL)` equals `a`. The optimizer moves conditions, so
lists of different clauses may be combined as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from memwal.errors import UnsupportedError
from planner.sql.edits import Edit, apply_edits
from planner.sql.rewrites.truth_position import TruthPosition, find_subject_start, find_truth_position
from planner.sql.tokens import SqlText, tokenize

_MOST = 100
_OF_ROWS = frozenset(TruthPosition) - {TruthPosition.OUTPUT, TruthPosition.VALUE}
_PLAIN = frozenset({"TRUE", "FALSE", "CAST", "TRY_CAST", "AS"})

_Words = tuple[str, ...]


def separate_lists(text: SqlText, nulls: Collection[str] = ()) -> Iterator[Edit]:
    """Yield edits of the operands of lists with more than literals that may be combined with others.

    Args:
        text: the statement.
        nulls: names of the parameters that are NULL, without "$"; others count as literals. If there are
            any, lists that were separated without them are not changed.

    Raises:
        UnsupportedError: there are too many such lists.
    """
    plain = _mark_nulls(text, ())
    given, unknown = _mark_nulls(text, nulls), _mark_nulls(text, None)
    # Different operands from those that have NULLIF already.
    depth = text.words.count("NULLIF") if nulls else 0
    # Equal conditions get equal edits: one may be a result, and the other its group.
    depths: dict[_Words, int] = {}
    for i, word in enumerate(text.words):
        if word != "IN" or not _is_list(plain, i):
            continue
        last = i - 2 if plain[i - 1] == "NOT" else i - 1
        first = find_subject_start(text, last)
        if find_truth_position(text, first, text.closing(i + 1)) in _OF_ROWS:
            is_meant = _may_meet_another(text, given, i) and not (nulls and _may_meet_another(text, plain, i))
        else:
            # The names of results are fixed before the values of parameters are known.
            is_meant = not nulls and _may_meet_another(text, unknown, i)
        if not is_meant:
            continue
        written = tuple(text.sql[text.start(k) : text.end(k)] for k in range(first, text.closing(i + 1)))
        own = depths.setdefault(written, depth + len(depths) + 1)
        if own > _MOST:
            raise UnsupportedError(f"More than {_MOST} lists with NULL or computed values are not offered")
        begin, end = text.start(first), text.end(last)
        yield from Edit.wrap(begin, end, "nullif(" * own, ", NULL)" * own)


def apply_separate_lists(sql: str, nulls: Collection[str] = ()) -> str:
    """Return the text of a statement with only `separate_lists` applied."""
    return apply_edits(sql, separate_lists(tokenize(sql), nulls))


def _mark_nulls(text: SqlText, nulls: Collection[str] | None) -> _Words:
    """Return the words of a statement, with NULL for parameters of some names, or, if None, for all."""
    words = [*text.words, "", ""]
    for i in range(1, len(text.words)):
        is_parameter = words[i] == "?" or (words[i] == "0" and text.words[i - 1] == "$")
        if is_parameter and (nulls is None or text.tokens[i].text in nulls):
            words[i] = "NULL"
    return tuple(words)


def _may_meet_another(text: SqlText, words: _Words, i: int) -> bool:
    """Return whether a list has more than literals, and may be combined with another condition."""
    if not _is_computed(words, i + 2):
        return False
    operand = _find_operand(text, words, i)
    others = (k for k, word in enumerate(words) if k != i and word == "IN" and _is_list(words, k))
    if any(not operand.isdisjoint(_find_operand(text, words, k)) for k in others):
        return True
    compared = [k for k, word in enumerate(words) if word == "=" or words[k - 1] == "="]
    beside = [k for k in (*compared, *(k - 1 for k in compared)) if text.is_name(k)]
    return "OR" in words and sum(text.name(k) in operand for k in frozenset(beside)) > 1


def _is_list(words: _Words, i: int) -> bool:
    """Return whether IN is followed by values instead of a subquery."""
    return words[i + 1] == "(" and words[i + 2] not in {"SELECT", "WITH", "VALUES", "TABLE"}


def _find_operand(text: SqlText, words: _Words, i: int) -> frozenset[str]:
    """Return the last name before [NOT] IN, all names in brackets there, or another word."""
    end = i - 2 if words[i - 1] == "NOT" else i - 1
    start, depth = end, 0
    while words[end] == ")" and start >= 0:
        depth += (words[start] == ")") - (words[start] == "(")
        if depth == 0:
            break
        start -= 1
    names = frozenset(text.name(k) for k in range(max(start, 0), end + 1) if text.is_name(k))
    return names or frozenset({words[end]})


def _is_computed(words: _Words, start: int) -> bool:
    """Return whether a list, up to its closing bracket, has more than literals."""
    depth = 0
    for k in range(start, len(words) - 1):
        word = words[k]
        depth += (word == "(") - (word == ")")
        if depth < 0:
            return False
        is_type = words[k - 1] in {"::", "AS"} or words[k + 1] == "'"
        if (word == '"' or word.isidentifier()) and word not in _PLAIN and not is_type:
            return True
    return False
