"""An array that is written out is a list."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"\b(?:any|some|all)\s*\(\s*(?:array\b|make_array\b|\[)")
def listed_arrays(tree: Tree) -> None:
    """Compare with the values of an array one by one, since an array has one type.

        SELECT id FROM p WHERE price = ANY (ARRAY[1.1, 4.44]) AND price <> ALL (ARRAY[9.95])
    ->  SELECT id FROM p WHERE price IN (1.1, 4.44) AND price NOT IN (9.95)
    """
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
