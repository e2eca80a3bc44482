"""Functions whose result DataFusion gets wrong, and fields behind a dot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.tree.dialect import parse_expression
from lance_gateway.planner.sql.tree.groups import cast_to, replace_value
from lance_gateway.planner.sql.tree.tree import Tree


def padded_texts(tree: Tree) -> None:
    """Pad to a length of rows that is not negative; DataFusion takes a negative one for a very large one.

        SELECT lpad(s, n) FROM t
    ->  SELECT lpad(s, CASE WHEN n < 0 THEN 0 ELSE n END) FROM t
    """
    for call in tree.find_calls("lpad", "rpad")[::-1]:
        if len(call.expressions) < 2:
            continue
        length = call.expressions[1]
        if not isinstance(length, exp.Literal | exp.Null):
            zero = exp.Literal.number(0)
            is_negative = exp.LT(this=exp.paren(length.copy()), expression=zero)
            branch = exp.If(this=is_negative, true=zero.copy())
            tree.replace(length, exp.Case(ifs=[branch], default=length.copy()))


_ANY_TEXT: Final = ".*"


_FLAGS: Final = {"regexp_like": 2, "regexp_match": 2, "regexp_replace": 3}
"""Function -> where its flags are."""


def matched_texts(tree: Tree) -> None:
    """Write `.*`, which every text matches, as a group.

    DataFusion replaces a match with `.*` by TRUE or FALSE, also where the text is NULL. It computes constants
    before, so that parameters and concatenated texts may become this expression, too.

        SELECT s ~ '.*', s ~ $1 FROM t
    ->  SELECT s ~ '(.*)', s ~ ('(' || $1 || ')') FROM t

    It takes flags that are NULL for none, too, and writes flags into the expression, where none are an error:
    `u` is the default.

        SELECT regexp_like(s, 'a', flags), regexp_replace(s, 'a', 'b', '') FROM t
    ->  SELECT CASE WHEN NOT flags IS NULL THEN
            regexp_like(s, 'a', CASE WHEN flags = '' THEN 'u' ELSE flags END) END,
            regexp_replace(s, 'a', 'b', 'u') FROM t
    """
    for pattern in _find_patterns(tree):
        if isinstance(pattern, exp.Literal):
            if pattern.name == _ANY_TEXT:
                tree.replace(pattern, exp.Literal.string(f"({_ANY_TEXT})"))
        elif pattern.find(exp.Column) is None:
            grouped = parse_expression("('(' || x || ')')")
            for column in list(grouped.find_all(exp.Column)):
                column.replace(exp.paren(pattern.copy()))
            tree.replace(pattern, grouped)
    for call in tree.find_calls(*_FLAGS)[::-1]:
        at = _FLAGS[call.name.casefold()]
        for flags in call.expressions[at : at + 1]:
            if isinstance(flags, exp.Literal):
                if not flags.name:
                    tree.replace(flags, exp.Literal.string("u"))
                continue
            written, is_known = call.copy(), flags.copy().is_(exp.null()).not_()
            is_empty = exp.EQ(this=flags.copy(), expression=exp.Literal.string(""))
            branch = exp.If(this=is_empty, true=exp.Literal.string("u"))
            written.expressions[at].replace(exp.Case(ifs=[branch], default=flags.copy()))
            replace_value(tree, call, exp.Case(ifs=[exp.If(this=is_known, true=written)]))


def _find_patterns(tree: Tree) -> Iterator[exp.Expr]:
    for node in tree.find_all(exp.RegexpLike, exp.RegexpILike, exp.Anonymous):
        if isinstance(node, exp.RegexpLike | exp.RegexpILike):
            yield node.expression
        elif isinstance(node, exp.Anonymous) and node.name.casefold() == "regexp_like":
            yield from node.expressions[1:2]


def formats_of_rows(tree: Tree) -> None:
    """Give NULL for a format of rows that is NULL, for which DataFusion may take that of another row.

        SELECT to_char(day, s) FROM t
    ->  SELECT CASE WHEN s IS NOT NULL THEN to_char(day, s) END FROM t
    """
    for call in tree.find_calls("to_char", "date_format")[::-1]:
        for pattern in call.expressions[1:2]:
            if pattern.find(exp.Column) is not None:
                is_known = pattern.copy().is_(exp.null()).not_()
                replace_value(tree, call, exp.Case(ifs=[exp.If(this=is_known, true=call.copy())]))


def decoded_texts(tree: Tree) -> None:
    """Match texts without their dictionary with patterns of rows.

    Arrow panics if the dictionary of a batch is empty, since all of its texts are NULL.

        SELECT d LIKE s FROM t
    ->  SELECT arrow_cast(d, 'Utf8') LIKE s FROM t
    """
    for node in tree.find_all(exp.Like, exp.ILike)[::-1]:
        kind = None if isinstance(node.expression, exp.Literal) else tree.find_type(node.this)
        if kind is not None and pa.types.is_dictionary(kind):
            tree.replace(node.this, cast_to(node.this.copy(), kind.value_type))


def sets_of_texts(tree: Tree) -> None:
    """Look for a text in a set as for one that is not large; of large constants, DataFusion makes no plan.

        SELECT find_in_set(large, $1) FROM t
    ->  SELECT find_in_set(arrow_cast(large, 'Utf8'), arrow_cast($1, 'Utf8')) FROM t
    """
    for call in tree.find_calls("find_in_set")[::-1]:
        for argument in call.expressions:
            kind = tree.find_type(argument)
            if kind is not None and pa.types.is_large_string(kind):
                tree.replace(argument, cast_to(argument.copy(), pa.string()))


_NEIGHBOURS: Final = frozenset({"lag", "lead"})


def defaults_of_rows(tree: Tree) -> None:
    """Write a default of `lag` and `lead` that is computed as the value where there is no such row.

    DataFusion takes only constants.

        SELECT lag(i, 1, k) OVER (ORDER BY id) FROM t
    ->  SELECT CASE WHEN lag(TRUE, 1) OVER (ORDER BY id) THEN lag(i, 1) OVER (ORDER BY id) ELSE k END FROM t
    """
    for window in tree.find_all(exp.Window):
        call = _find_call(window)
        if call is None or len(call.expressions) < 3 or call.expressions[2].find(exp.Column) is None:
            continue
        value, offset, default = call.expressions
        call.set("expressions", [value, offset])
        found, exists = window.copy(), window.copy()
        marked = _find_call(exists)
        if isinstance(window.this, exp.IgnoreNulls) or marked is None:
            tree.replace(window, exp.Anonymous(this="coalesce", expressions=[found, default.copy()]))
            continue
        marked.set("expressions", [exp.true(), offset.copy()])
        tree.replace(window, exp.Case(ifs=[exp.If(this=exists, true=found)], default=default.copy()))


def _find_call(window: exp.Window) -> exp.Anonymous | None:
    call = window.this.this if isinstance(window.this, exp.IgnoreNulls | exp.RespectNulls) else window.this
    is_one = isinstance(call, exp.Anonymous) and call.name.casefold() in _NEIGHBOURS
    return call if is_one else None


def dotted_fields(tree: Tree) -> None:
    """Write a field of an expression in brackets as a call.

    DataFusion reads a dot only behind the name of a column.

        SELECT (st).x FROM t
    ->  SELECT get_field(st, 'x') AS x FROM t
    """
    for dot in tree.find_all(exp.Dot)[::-1]:
        whole, field = dot.this, dot.expression
        is_value = isinstance(whole, exp.Paren | exp.Bracket) or _is_call(whole)
        if not is_value or not isinstance(field, exp.Identifier):
            continue
        name = field.name if field.args.get("quoted") else field.name.casefold()
        call = exp.Anonymous(this="get_field", expressions=[whole.unnest().copy(), exp.Literal.string(name)])
        is_output = isinstance(dot.parent, exp.Select) and dot.arg_key == "expressions"
        tree.replace(dot, exp.alias_(call, field.copy()) if is_output else call)


def _is_call(whole: exp.Expr) -> bool:
    return isinstance(whole, exp.Anonymous) and whole.name == "get_field"
