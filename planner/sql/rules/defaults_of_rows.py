"""lag and lead with a default of each row."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts

_FUNCTIONS: Final = frozenset({"lag", "lead"})


@for_texts(r"\b(?:lag|lead)\s*\(.*,.*,")
def defaults_of_rows(tree: Tree) -> None:
    """Write a default of `lag` and `lead` that is computed as the value where there is no such row.

    DataFusion takes only constants.

        SELECT lag(i, 1, k) OVER (ORDER BY id) FROM t
    ->  SELECT CASE WHEN lag(TRUE, 1) OVER (ORDER BY id) THEN lag(i, 1) OVER (ORDER BY id) ELSE k END FROM t
    """
    for window in list(tree.root.find_all(exp.Window)):
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
    is_one = isinstance(call, exp.Anonymous) and call.name.casefold() in _FUNCTIONS
    return call if is_one else None
