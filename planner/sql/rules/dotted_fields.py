"""Fields of expressions behind a dot."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"[)\]]\s*\.\s*[a-z_\"]")
def dotted_fields(tree: Tree) -> None:
    """Write a field of an expression in brackets as a call.

    DataFusion reads a dot only behind the name of a column.

        SELECT (st).x FROM t
    ->  SELECT get_field(st, 'x') AS x FROM t
    """
    for dot in reversed(list(tree.root.find_all(exp.Dot))):
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
