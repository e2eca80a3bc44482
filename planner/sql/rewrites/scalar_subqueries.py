"""Subqueries that stand for a value, in words whose NULL DataFusion gets right.

    SELECT * FROM orders WHERE (SELECT 5 FROM items WHERE id = 7) IS NULL
->  SELECT * FROM orders WHERE nullif((SELECT 5 FROM items WHERE id = 7), NULL) IS NULL

    SELECT (SELECT 5 + 0 * count(*) FROM items WHERE items.id = orders.id) FROM orders
->  SELECT (SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (5 + 0 * count(*)) END FROM items ..) FROM orders
    SELECT coalesce((SELECT count(*) FROM items HAVING count(*) > 9), 0)
->  SELECT coalesce((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (count(*)) END FROM items HAVING ..), 0)

DataFusion 54 takes a subquery for never NULL if its column is never NULL, though there may be no row. What
nullif() gives is nullable.

DataFusion 54 joins correlated subqueries, and computes what they give for no rows from the aggregates in it.
Those that simplifying leaves out, as in `0 * count(*)`, give NULL then. count() without the row around
it is taken to be never NULL, though HAVING or LIMIT may leave no row.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.sql.tokens import Edit, Piece, SqlText, apply_edits, tokenize

__all__ = ["keep_conditions_in_place", "rewrite_nullable_subqueries", "rewrite_scalar_totals"]

_OF_ROWS = frozenset(
    {"FROM", "JOIN", "IN", "EXISTS", "ANY", "SOME", "ALL", "AS", "UNION", "EXCEPT", "INTERSECT", "UNNEST"}
)
"""Before subqueries that stand for rows."""
_AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "BOOL_AND", "BOOL_OR"})
_SIMPLIFIED = frozenset({"COUNT", "CASE", "COALESCE", "NVL", "IFNULL"})
"""In expressions that may become simpler ones without aggregates."""
_ENDS = frozenset({"END", "NULL", "TRUE", "FALSE", "UNKNOWN"})
_AMID = frozenset({"IS", "NOT", "AND", "OR", "ELSE", "THEN", "LIKE", "ILIKE", "BETWEEN", "DISTINCT"})
"""Words of expressions: at their ends, and before an operand."""
_ROW_MAY_GO = frozenset({"HAVING", "LIMIT", "OFFSET", "FETCH"})


_BEFORE_VALUES = frozenset(
    {"=", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "SELECT", "WHERE", "HAVING", "ON"}
    | {"AND", "OR", "NOT", "CASE", "WHEN", "THEN", "ELSE", "BETWEEN", "LIKE", "ILIKE", "BY", "RETURNING"}
)
_FROM_CLAUSE = frozenset({"FROM", "JOIN", "ON", "USING"})
"""Words before a comma of a FROM clause."""
_LISTS = frozenset({"SELECT", "BY", "WHERE", "HAVING", "VALUES", "SET", "RETURNING"})
"""Words before the commas of other clauses."""
_QUERY_GOES_ON = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH"})
_AFTER_CONDITIONS = _QUERY_GOES_ON | {"GROUP", "HAVING", "WINDOW", "QUALIFY", "RETURNING"}
_NULLABLE = _AGGREGATES - {"COUNT"}
_NEVER_NULL = _SIMPLIFIED | {"IS", "EXISTS", "GROUP"}
"""Words of expressions over nullable aggregates that may be never NULL."""


def rewrite_nullable_subqueries(text: SqlText) -> Iterator[Edit]:
    """Yield calls of nullif() around the subqueries that stand for a value."""
    words = text.words
    for i, word in enumerate(words):
        if word not in {"SELECT", "WITH"} or not i or words[i - 1] != "(":
            continue
        if not _is_value(text, i - 1):
            continue
        last = text.closing(i - 1)
        item = _only_item(text, i + 1, last) if word == "SELECT" else None
        if (
            item is not None
            and not _NULLABLE.isdisjoint(words[item.start : item.stop])
            and _NEVER_NULL.isdisjoint(words[i:last])
        ):
            continue
        begin, end = text.start(i - 1), text.end(last)
        yield Edit(begin, begin, [_mend("nullif(", begin)])
        yield Edit(end, end, [_mend(", NULL)", end)])


def keep_conditions_in_place(sql: str) -> str:
    """Return a statement whose conditions stay above the aggregates that they are written above.

        SELECT n FROM (SELECT count(*) AS n FROM t WHERE a > 1) WHERE (SELECT max(id) FROM u) < 0
    ->  SELECT n FROM (SELECT count(*) AS n FROM t WHERE nullif(a > 1, random() > 2))
        WHERE nullif((SELECT max(id) FROM u) < 0, random() > 2)

    Physical plans move a condition on constants into a filter below, unless its value may change. False
    becomes NULL.
    """
    text = tokenize(sql)
    words = text.words
    edits: list[Edit] = []
    for i, word in enumerate(words):
        if word in {"WHERE", "HAVING"} and (i < 2 or words[i - 2] != "FILTER"):
            condition = range(i + 1, _find_condition_end(text, i + 1))
            subqueries = [at for at in condition if words[at] == "(" and words[at + 1] in {"SELECT", "WITH"}]
            values = [at for at in subqueries if _is_value(text, at)]
            if values == subqueries:
                edits.append(Edit.insert(text.start(condition[0]), "nullif("))
                edits.append(Edit.insert(text.end(condition[-1]), ", random() > 2)"))
                continue
            # Joins with subqueries must stay conjuncts.
            for at in values:
                edits.append(Edit.insert(text.start(at), "CASE WHEN random() < 2 THEN "))
                edits.append(Edit.insert(text.end(text.closing(at)), " END"))
    return apply_edits(sql, edits)


def _find_condition_end(text: SqlText, first: int) -> int:
    """Return the token behind a condition."""
    words = text.words
    i = first
    while words[i] and words[i] != ")" and words[i] not in _AFTER_CONDITIONS:
        i = text.closing(i) + 1 if words[i] == "(" else i + 1
    return i


def _is_value(text: SqlText, opening: int) -> bool:
    """Return whether a subquery in brackets stands for a value."""
    words = text.words
    if words[text.closing(opening) + 1] in _QUERY_GOES_ON:
        return False
    outer = opening
    while outer and words[outer - 1] == "(":
        outer -= 1
    if not outer:
        return False
    before = words[outer - 1]
    if before == ",":
        return _is_in_value_list(text, outer - 1)
    if before == "FROM":
        return words[outer - 2] == "DISTINCT" and words[outer - 3] in {"IS", "NOT"}
    is_argument = outer < opening and text.is_name(outer - 1) and before not in _OF_ROWS
    return is_argument or before in _BEFORE_VALUES


def _is_in_value_list(text: SqlText, comma: int) -> bool:
    """Return whether a comma separates values, not relations."""
    words = text.words
    depth = 0
    for i in range(comma - 1, -1, -1):
        word = words[i]
        if word == ")":
            depth += 1
        elif word == "(":
            if not depth:
                return words[i - 1] not in _FROM_CLAUSE if i else False
            depth -= 1
        elif depth:
            continue
        elif word in _LISTS:
            return True
        elif word in _FROM_CLAUSE and words[i - 1] != "DISTINCT":
            return False
    return False


def rewrite_scalar_totals(text: SqlText) -> Iterator[Edit]:
    """Yield what stands around the totals of subqueries that stand for a value."""
    words = text.words
    for i, word in enumerate(words):
        if word != "SELECT" or not i or words[i - 1] != "(" or not _is_value(text, i - 1):
            continue
        end = text.closing(i - 1)
        item = _only_item(text, i + 1, end)
        if item is None:
            continue
        calls = _aggregates(text, item)
        if "HAVING" in words[item.stop : end] and "GROUP" not in words[item.stop : end]:
            is_meant = True
        elif not calls:
            continue
        elif calls == [item]:
            is_meant = words[item.start] == "COUNT" and not _ROW_MAY_GO.isdisjoint(words[item.stop : end])
        else:
            is_meant = not _SIMPLIFIED.isdisjoint(words[item.start : item.stop])
        if is_meant:
            begin, last = text.start(item.start), text.end(item.stop - 1)
            yield Edit(begin, begin, [_mend("CASE WHEN count(*) < 0 THEN NULL ELSE (", begin)])
            yield Edit(last, last, [_mend(") END", last)])


def _only_item(text: SqlText, first: int, end: int) -> range | None:
    """The tokens of the only column of a SELECT, without its name; None for DISTINCT, and without FROM."""
    words = text.words
    i = first
    while i < end and words[i] != "FROM":
        if words[i] in {",", "DISTINCT", "ALL"}:
            return None
        if words[i] == "AS":
            return range(first, i)
        i = text.closing(i) + 1 if words[i] == "(" else i + 1
    if i >= end or i == first:
        return None
    is_named = text.is_name(i - 1) and words[i - 1] not in _ENDS
    is_named = is_named and (
        words[i - 2] in {")", "0", "END"} or (text.is_name(i - 2) and words[i - 2] not in _AMID)
    )
    return range(first, i - 1 if is_named else i)


def _aggregates(text: SqlText, tokens: range) -> list[range]:
    """The calls of aggregates among some tokens, without those of subqueries."""
    words = text.words
    calls = []
    i = tokens.start
    while i < tokens.stop:
        if words[i] == "(" and words[i + 1] in {"SELECT", "WITH"}:
            i = text.closing(i)
        elif words[i] in _AGGREGATES and words[i + 1] == "(" and words[i - 1] != ".":
            last = text.closing(i + 1)
            if words[last + 1] == "FILTER" and words[last + 2] == "(":
                last = text.closing(last + 2)
            if words[last + 1] != "OVER":
                calls.append(range(i, last + 1))
            i = last
        i += 1
    return calls


def _mend(text: str, origin: int) -> Piece:
    return Piece(text, origin, verbatim=False, mend=True)
