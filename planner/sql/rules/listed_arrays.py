"""An array that is written out is a list, and so is a vector that gets an element."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import cast_to
from planner.sql.rules.tree import Tree, for_texts

_GROWING: Final = {
    f"{kind}_{what}": at
    for kind in ("array", "list")
    for what, at in (("append", 0), ("push_back", 0), ("prepend", 1), ("push_front", 1))
}
"""Function that adds an element -> which argument the list is."""


@for_texts(
    r"\b(?:any|some|all)\s*\(\s*(?:array\b|make_array\b|\[)"
    r"|fixed_?size_?list.*_(?:append|prepend|push)|_(?:append|prepend|push).*fixed_?size_?list"
)
def listed_arrays(tree: Tree) -> None:
    """Compare with the values of an array one by one, since an array has one type.

        SELECT id FROM p WHERE price = ANY (ARRAY[1.1, 4.44]) AND price <> ALL (ARRAY[9.95])
    ->  SELECT id FROM p WHERE price IN (1.1, 4.44) AND price NOT IN (9.95)

    DataFusion adds an element to the elements that lie below a vector that is NULL.

        SELECT array_append(v, 1) FROM t
    ->  SELECT array_append(CASE WHEN v IS NOT NULL THEN arrow_cast(v, 'List(Float32)') END, 1) FROM t
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        at = _GROWING.get(call.name.casefold())
        if at is not None and len(call.expressions) == 2:
            kind = tree.find_type(call.expressions[at])
            if kind is not None and pa.types.is_fixed_size_list(kind):
                vector = call.expressions[at]
                branch = exp.If(
                    this=vector.copy().is_(exp.null()).not_(),
                    true=cast_to(vector.copy(), pa.list_(kind.value_type)),
                )
                tree.replace(vector, exp.Case(ifs=[branch]))
    for node in list(tree.root.find_all(exp.EQ, exp.NEQ))[::-1]:
        quantified = node.expression
        of_all = isinstance(node, exp.NEQ)
        # sqlglot reads ALL before an array as a function.
        is_call = isinstance(quantified, exp.Anonymous) and quantified.name.upper() == "ALL"
        if not (is_call if of_all else isinstance(quantified, exp.Any)):
            continue
        values = _list_values(quantified.expressions[0] if is_call else quantified.this)
        if values:
            found = exp.In(this=node.this.copy(), expressions=[value.copy() for value in values])
            tree.replace(node, exp.Not(this=found) if of_all else found)


def _list_values(array: exp.Expr) -> list[exp.Expr]:
    array = array.unnest()
    is_call = isinstance(array, exp.Anonymous) and array.name.upper() == "MAKE_ARRAY"
    values: list[exp.Expr] = array.expressions if is_call or isinstance(array, exp.Array) else []
    return values
