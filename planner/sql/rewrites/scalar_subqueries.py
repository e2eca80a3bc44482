"""Subqueries that stand for a value, in words whose NULL DataFusion gets right.

    SELECT * FROM orders WHERE (SELECT 5 FROM items WHERE id = 7) IS NULL
->  SELECT * FROM orders WHERE nullif((SELECT 5 FROM items WHERE id = 7), NULL) IS NULL

    SELECT (SELECT 5 + 0 * count(*) FROM items WHERE items.id = orders.id) FROM orders
->  SELECT (SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (5 + 0 * count(*)) END FROM items ..) FROM orders
    SELECT coalesce((SELECT count(*) FROM items HAVING count(*) > 9), 0)
->  SELECT coalesce((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (count(*)) END FROM items HAVING ..), 0)

    SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM items WHERE items.id = orders.id HAVING count(*) = 0)
->  SELECT id FROM orders WHERE coalesce((
        SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (count(*) = 0) END FROM items WHERE items.id = orders.id
    ), FALSE)

DataFusion 55 takes a subquery for never NULL if its column is never NULL, though there may be no row. What
nullif() gives is nullable.

DataFusion 55 joins correlated subqueries, and computes what they give for no rows from the aggregates in it.
Those that simplifying leaves out, as in `0 * count(*)`, give NULL then. count() without the row around
it is taken to be never NULL, though HAVING or LIMIT may leave no row. HAVING that is true of no rows is
forgotten: it becomes part of the column.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.sql.edits import Copy, Edit, Piece, apply_edits
from planner.sql.tokens import SqlText, tokenize

_OF_ROWS = frozenset(
    {"FROM", "JOIN", "IN", "EXISTS", "ANY", "SOME", "ALL", "AS", "UNION", "EXCEPT", "INTERSECT", "UNNEST"}
)
"""Before subqueries that stand for rows."""
_AGGREGATES = frozenset(
    {"COUNT", "SUM", "MIN", "MAX", "AVG", "MEAN", "BOOL_AND", "BOOL_OR", "ARRAY_AGG", "STRING_AGG", "MEDIAN"}
    | {"STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VAR", "VAR_POP", "VAR_SAMP", "VARIANCE", "BIT_AND", "BIT_OR"}
    | {"BIT_XOR", "CORR", "COVAR", "COVAR_POP", "COVAR_SAMP", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"}
    | {"APPROX_DISTINCT", "APPROX_MEDIAN", "APPROX_PERCENTILE_CONT", "PERCENTILE_CONT", "GROUPING"}
)
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
_CLAUSES = (_AFTER_CONDITIONS | {"FROM", "HAVING"}) - {"RETURNING"}
_QUANTIFIERS = frozenset({"ANY", "SOME", "ALL"})
_COMPARISONS = frozenset({"=", "<>", "!=", "<", ">", "<=", ">="})
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
        yield from Edit.wrap(text.start(i - 1), text.end(last), "nullif(", ", NULL)", mend=True)


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
        return is_in_value_list(text, outer - 1)
    if before == "FROM":
        return words[outer - 2] == "DISTINCT" and words[outer - 3] in {"IS", "NOT"}
    is_argument = outer < opening and text.is_name(outer - 1) and before not in _OF_ROWS
    return is_argument or before in _BEFORE_VALUES


def is_in_value_list(text: SqlText, comma: int) -> bool:
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
        if word != "SELECT" or not i or words[i - 1] != "(":
            continue
        if not _is_value(text, i - 1) and not (
            is_quantified(words, i - 1) and find_condition_of_one_row(text, i - 1) == range(0)
        ):
            continue
        end = text.closing(i - 1)
        item = _only_item(text, i + 1, end)
        condition = None if item is None else find_condition_of_one_row(text, i - 1)
        if item is not None and condition:
            yield from _move_condition(text, item, condition)
            continue
        calls = [] if item is None else _aggregates(text, item)
        if item is None or not calls:
            continue
        if calls == [item]:
            is_meant = words[item.start] == "COUNT" and not _ROW_MAY_GO.isdisjoint(words[item.stop : end])
        else:
            is_meant = not _SIMPLIFIED.isdisjoint(words[item.start : item.stop])
        if is_meant:
            before = "CASE WHEN count(*) < 0 THEN NULL ELSE ("
            yield from Edit.wrap(text.start(item.start), text.end(item.stop - 1), before, ") END", mend=True)


def rewrite_exists_of_one_row(text: SqlText) -> Iterator[Edit]:
    """Yield EXISTS of a subquery with one row as the value of its HAVING."""
    words = text.words
    for i, word in enumerate(words[:-1]):
        if word != "EXISTS" or words[i + 1] != "(" or words[i - 1] in {"IF", "."}:
            continue
        condition = find_condition_of_one_row(text, i + 1)
        if condition is None:
            continue
        first, end = text.start(i), text.end(text.closing(i + 1))
        source = next(k for k in text.level(i + 2) if words[k] == "FROM" and words[k - 1] != "DISTINCT")
        stop = condition.start - 1 if condition else text.closing(i + 1)
        wanted: Piece | Copy = Piece("TRUE", first, verbatim=False)
        if condition:
            wanted = Copy(text.start(condition.start), text.end(condition.stop - 1))
        pieces: list[Piece | Copy] = [
            Piece("coalesce((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (", first, verbatim=False),
            wanted,
            Piece(") END ", first, verbatim=False),
            Copy(text.start(source), text.start(stop)),
            Piece("), FALSE)", end, verbatim=False),
        ]
        yield Edit(first, end, pieces)


def _move_condition(text: SqlText, item: range, condition: range) -> Iterator[Edit]:
    """Yield what moves HAVING of one row into its column, and makes HAVING true."""
    begin, last = text.start(item.start), text.end(item.stop - 1)
    first, end = text.start(condition.start), text.end(condition.stop - 1)
    yield Edit(
        begin,
        begin,
        [
            _mend("CASE WHEN count(*) < 0 THEN NULL WHEN (", begin),
            Copy(first, end, mend=True),
            _mend(") THEN (", begin),
        ],
        other=last,
    )
    yield Edit(last, last, [_mend(") END", last)], other=begin)
    yield from Edit.wrap(first, end, "count(*) >= 0 OR (", ")", mend=True)


def is_quantified(words: tuple[str, ...], opening: int) -> bool:
    """Return whether IN, or a comparison with ANY or ALL, stands before a bracket."""
    before = words[opening - 1]
    return before == "IN" or (before in _QUANTIFIERS and words[opening - 2] in _COMPARISONS)


def find_condition_of_one_row(text: SqlText, opening: int) -> range | None:
    """Return the tokens of HAVING of a subquery that has one row or, by HAVING, none.

    Args:
        text: the statement.
        opening: the bracket before the subquery.

    Returns:
        An empty range where there is no HAVING; None if the subquery may have more rows, or is limited.
    """
    words, end = text.words, text.closing(opening)
    if words[opening + 1] != "SELECT":
        return None
    clauses: dict[str, int] = {}
    for i in text.level(opening + 1):
        is_operator = words[i] == "FROM" and words[i - 1] == "DISTINCT"
        if words[i] in _CLAUSES and words[i - 1] != "." and not is_operator:
            clauses.setdefault(words[i], i)
    if "FROM" not in clauses or not clauses.keys() <= {"FROM", "HAVING"}:
        return None
    if "HAVING" in clauses:
        return range(clauses["HAVING"] + 1, end)
    return range(0) if _aggregates(text, range(opening + 2, clauses["FROM"])) else None


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
