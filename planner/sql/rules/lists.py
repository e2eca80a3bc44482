"""Lists of values behind IN, and arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.tree.dialect import parse_expression, write_sql
from lance_gateway.planner.sql.tree.groups import cast_to, find_quantified, make_nullable, replace_value
from lance_gateway.planner.sql.tree.queries import Truth, find_truth
from lance_gateway.planner.sql.tree.tree import Tree, is_unstable

_CONDITIONAL: Final = frozenset({"COALESCE", "NVL", "NVL2", "IFNULL"})


def computed_lists(tree: Tree) -> None:
    """Compare with CASE, and what becomes CASE, outside of lists.

    To learn whether a list is constant, DataFusion evaluates it over no rows. CASE then gives one value
    instead of a column of none, which is taken for that of every row.

        SELECT id FROM t WHERE i IN (coalesce(id, 1), 5)
    ->  SELECT id FROM t WHERE (i IN (5) OR i = coalesce(id, 1))
    """
    for node in tree.find_all(exp.In)[::-1]:
        computed = [one for one in node.expressions if _is_conditional(one)]
        if len(node.expressions) < 2 or not computed or is_unstable(node.this):
            continue
        rest = [one.copy() for one in node.expressions if one not in computed]
        tests: list[exp.Expr] = [exp.In(this=node.this.copy(), expressions=rest)] if rest else []
        tests += [exp.EQ(this=node.this.copy(), expression=one.copy()) for one in computed]
        tree.replace(node, exp.paren(exp.or_(*tests, copy=False), copy=False))


def _is_conditional(element: exp.Expr) -> bool:
    """Return whether an element is computed by CASE, of columns."""
    if isinstance(element, exp.Literal):
        return False
    if element.find(exp.Query) is not None:
        return True
    calls = (call.name.upper() for call in element.find_all(exp.Anonymous))
    is_case = element.find(exp.Case) is not None or not _CONDITIONAL.isdisjoint(calls)
    return is_case and element.find(exp.Column) is not None


_MOST: Final = 100


def separate_lists(tree: Tree) -> None:
    """Hide from the simplifier that lists with more than literals have one operand.

    It combines two lists for one operand, and compares their elements as expressions: NULL is lost, and a
    column equals only itself. Equalities joined with OR become lists. The optimizer moves conditions, so
    lists of different clauses may be combined as well.

        SELECT id FROM t WHERE i IN (1, 2) AND i NOT IN (NULL, 2)
    ->  SELECT id FROM t WHERE i IN (1, 2) AND nullif(i, NULL) NOT IN (NULL, 2)

    Raises:
        UnsupportedError: there are too many such lists.
    """
    lists = [node for node in tree.find_all(exp.In) if node.expressions]
    operands = {id(node): _find_names(node.this) for node in lists}
    sides = [side for node in tree.find_all(exp.EQ) for side in (node.this, node.expression)]
    compared = [side.name.casefold() for side in sides if isinstance(side, exp.Column)]
    has_or = bool(tree.find_all(exp.Or))
    # Equal conditions are changed equally: one may be a result, and the other its group.
    depths: dict[str, int] = {}
    for node in lists:
        if all(_is_literal(tree, element) for element in node.expressions):
            continue
        names = operands[id(node)]
        meets = any(one is not node and names & operands[id(one)] for one in lists)
        if not meets and not (has_or and sum(name in names for name in compared) > 1):
            continue
        depth = depths.setdefault(write_sql(node), len(depths) + 1)
        if depth > _MOST:
            msg = f"More than {_MOST} lists with NULL or computed values are not supported"
            raise UnsupportedError(msg)
        for _ in range(depth):
            tree.replace(node.this, make_nullable(node.this))


def _find_names(operand: exp.Expr) -> frozenset[str]:
    """Return the columns of an operand, or the operand itself if it has none."""
    names = frozenset(column.name.casefold() for column in operand.find_all(exp.Column))
    return names or frozenset({write_sql(operand)})


def _is_literal(tree: Tree, element: exp.Expr) -> bool:
    while isinstance(element, exp.Paren | exp.Neg | exp.Cast):
        element = element.this
    if isinstance(element, exp.Parameter):
        return element.name not in tree.nulls
    return isinstance(element, exp.Literal | exp.Boolean | exp.HexString | exp.Interval)


_Membership: TypeAlias = tuple[exp.Expr, str]
"""A condition, and the value that is in its list."""


def disjoint_lists(tree: Tree) -> None:
    """Keep the lists of one value apart where NULL is not FALSE.

    DataFusion makes one list of two. If that is empty, it replaces both conditions by TRUE or FALSE, also for
    rows in which the value is NULL.

        SELECT NOT (i IN (1) AND i IN (2)) FROM t
    ->  SELECT NOT (nullif(i IN (1), NULL) AND nullif(i IN (2), NULL)) FROM t
    """
    found = list(_find_memberships(tree.root)) if tree.find_all(exp.In, exp.Or) else []
    if not found:
        return
    renamed = {one.alias for one in tree.find_all(exp.Alias, exp.TableAlias)}
    renamed |= {column.name for one in tree.find_all(exp.TableAlias) for column in one.columns}
    is_read = len(tree.find_all(exp.Select)) > 1
    values = Counter("" if value in renamed else value for _, value in found)
    for condition, value in found:
        may_be_any = value in renamed or (is_read and _is_output(condition))
        others = len(found) if may_be_any else values[value] + values[""]
        if others > 1 and not _may_be_false(condition):
            whole = _with_negation(condition)
            tree.replace(whole, make_nullable(whole))


def _find_memberships(root: exp.Expr) -> Iterator[_Membership]:
    """Yield conditions that are lists for DataFusion: IN, and `=` of one value that OR connects."""
    commons: dict[int, frozenset[str]] = {}  # of each OR; a chain of them is found once

    def find_common(node: exp.Expr) -> frozenset[str]:
        """Return the values that are compared in all operands of OR."""
        node = node.unnest()
        if isinstance(node, exp.Or):
            if id(node) not in commons:
                commons[id(node)] = find_common(node.this) & find_common(node.expression)
            return commons[id(node)]
        if isinstance(node, exp.EQ):
            sides = (node.this, node.expression)
            return frozenset(_name(side) for side in sides if not isinstance(side, exp.Literal))
        return frozenset({_name(node.this)} if isinstance(node, exp.In) else ())

    for node in root.walk(prune=lambda node: isinstance(node, exp.Or) and bool(find_common(node))):
        if isinstance(node, exp.In) and not node.args.get("query") and not node.args.get("unnest"):
            yield node, _name(node.this)
        elif isinstance(node, exp.Or) and (common := find_common(node)):
            yield node, min(common)


def _name(value: exp.Expr) -> str:
    """Return the text of an expression without the names of relations."""
    value = value.unnest().copy()
    for column in value.find_all(exp.Column):
        column.replace(exp.column(column.this.name.casefold()))
    return value.name.casefold() if isinstance(value, exp.Column) else write_sql(value)


def _with_negation(condition: exp.Expr) -> exp.Expr:
    """Return NOT of a list, which is a list for DataFusion, too; the condition itself for others."""
    above = condition.parent
    return above if isinstance(condition, exp.In) and isinstance(above, exp.Not) else condition


def _may_be_false(condition: exp.Expr) -> bool:
    """Return whether a row is left out if the condition is FALSE in the place of NULL, and never TRUE."""
    inner = _with_negation(condition)
    is_negated, is_any = inner is not condition, False
    while isinstance(above := inner.parent, exp.And | exp.Or | exp.Paren):
        inner = above
        is_any |= isinstance(above, exp.Or)
    is_condition = isinstance(above, exp.Where | exp.Having | exp.Qualify) or inner.arg_key == "on"
    return is_condition and not (is_any and is_negated)


def _is_output(condition: exp.Expr) -> bool:
    """Return whether a column of a query may have the condition as a part, and may be read elsewhere."""
    node = condition
    while node.parent is not None and not isinstance(node.parent, exp.Query):
        node = node.parent
    return node.arg_key == "expressions"


_FUNCTIONS: Final = frozenset(
    {"array_has_all", "list_has_all", "array_has_any", "list_has_any", "arrays_overlap"}
)


def contained_lists(tree: Tree) -> None:
    """Write a test of two lists that gives NULL if one of them is NULL.

    DataFusion takes NULL for an empty list if the list in question is empty.

        SELECT array_has_all(l, m) FROM t
    ->  SELECT CASE WHEN NOT l IS NULL AND NOT m IS NULL THEN array_has_all(l, m) END FROM t
    """
    for node in tree.find_all(exp.Anonymous, exp.ArrayContainsAll, exp.ArrayContainedBy)[::-1]:
        if isinstance(node, exp.Anonymous) and node.name.casefold() in _FUNCTIONS:
            operands = node.expressions
        elif isinstance(node, exp.ArrayContainsAll | exp.ArrayContainedBy):
            operands = [node.this, node.expression]
        else:
            continue
        whole, part = reversed(operands) if isinstance(node, exp.ArrayContainedBy) else operands
        if any(isinstance(one, exp.Null) for one in operands):
            tree.replace(node, parse_expression("CAST(NULL AS BOOLEAN)"))
            continue
        if _is_constant(part) and part.expressions:
            continue  # DataFusion is right about a NULL that is searched for something
        known = [one.copy().is_(exp.null()).not_() for one in (whole, part) if not _is_constant(one)]
        if known:
            tree.replace(node, exp.Case(ifs=[exp.If(this=exp.and_(*known), true=node.copy())]))


def _is_constant(operand: exp.Expr) -> bool:
    """Return whether an operand is written as a list, which is never NULL."""
    is_call = isinstance(operand, exp.Anonymous) and operand.name.casefold() == "make_array"
    return is_call or isinstance(operand, exp.Array)


_GROWING: Final = {
    f"{kind}_{what}": at
    for kind in ("array", "list")
    for what, at in (("append", 0), ("push_back", 0), ("prepend", 1), ("push_front", 1))
}
"""Function that adds an element -> which argument the list is."""


def lengths_of_lists(tree: Tree) -> None:
    """Count the elements of a list and of a map; DataFusion counts the characters of a list's text.

        SELECT length(l) FROM t
    ->  SELECT cardinality(l) FROM t
    """
    for call in tree.find_calls("length")[::-1]:
        kind = tree.find_type(call.expressions[0]) if tree.may_mix(call.expressions, "other") else None
        if kind is not None and pa.types.is_nested(kind) and not pa.types.is_struct(kind):
            replace_value(
                tree, call, exp.Anonymous(this="cardinality", expressions=[call.expressions[0].copy()])
            )


def listed_arrays(tree: Tree) -> None:
    """Compare with the values of an array one by one, since an array has one type.

        SELECT id FROM p WHERE price = ANY (ARRAY[1.1, 4.44]) AND price <> ALL (ARRAY[9.95])
    ->  SELECT id FROM p WHERE price IN (1.1, 4.44) AND price NOT IN (9.95)

    DataFusion finds no value beside NULL in a list of rows, but with ALL.

        SELECT 1 = ANY (l) FROM t
    ->  SELECT NOT 1 <> ALL (l) FROM t

    DataFusion adds an element to the elements that lie below a list that is NULL.

        SELECT array_append(v, 1), v || 1 FROM t
    ->  SELECT array_append(coalesce(v, arrow_cast([], 'List(Int64)')), 1), array_append(..) FROM t
    """
    for pipe in tree.find_all(exp.DPipe)[::-1]:
        operands = [pipe.this, pipe.expression]
        are_lists = [_is_list(tree, one) for one in operands]
        if any(are_lists):
            name = "array_concat" if all(are_lists) else f"array_{'append' if are_lists[0] else 'prepend'}"
            tree.replace(
                pipe, exp.Anonymous(this=name, expressions=[one.unnest().copy() for one in operands])
            )
    for call in tree.find_all(exp.Anonymous)[::-1]:
        at = _GROWING.get(call.name.casefold())
        if at is None or len(call.expressions) != 2 or _is_constant(values := call.expressions[at]):
            continue
        kind = tree.find_type(values)
        if kind is not None and _is_list(tree, values):
            is_vector = pa.types.is_fixed_size_list(kind)
            kind = pa.list_(kind.value_type) if is_vector else kind
            copies = cast_to(values.copy(), kind) if is_vector else values.copy()
            empty = cast_to(exp.Array(expressions=[]), kind)
            tree.replace(values, exp.Anonymous(this="coalesce", expressions=[copies, empty]))
    for node in tree.find_all(exp.EQ, exp.NEQ)[::-1]:
        quantified = node.expression
        of_all = isinstance(node, exp.NEQ)
        array = find_quantified(node)
        if array is None or isinstance(quantified, exp.Any) is of_all:
            continue
        if values := _list_values(array):
            found = exp.In(this=node.this.copy(), expressions=[value.copy() for value in values])
            tree.replace(node, exp.Not(this=found) if of_all else found)
        elif not of_all and find_truth(node) not in {Truth.CONJUNCT, Truth.TRUE}:
            kind = tree.find_type(array)
            if kind is not None and _is_list(tree, array) and not pa.types.is_nested(kind.value_type):
                all_ = exp.Anonymous(this="ALL", expressions=[array.unnest().copy()])
                replace_value(tree, node, exp.Not(this=exp.NEQ(this=node.this.copy(), expression=all_)))


def _is_list(tree: Tree, values: exp.Expr) -> bool:
    kind = tree.find_type(values) if tree.may_mix([values], "other") else None
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return kind is not None and any(is_one(kind) for is_one in tests)


def _list_values(array: exp.Expr) -> list[exp.Expr]:
    array = array.unnest()
    is_call = isinstance(array, exp.Anonymous) and array.name.upper() == "MAKE_ARRAY"
    values: list[exp.Expr] = array.expressions if is_call or isinstance(array, exp.Array) else []
    return values
