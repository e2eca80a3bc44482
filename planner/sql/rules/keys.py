"""Keys of groups and of sorting, constants on the left, and extremes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.rules.values import hide_value, select_from, write_null
from lance_gateway.planner.sql.tree.dialect import parse_expression, write_sql
from lance_gateway.planner.sql.tree.groups import make_nullable
from lance_gateway.planner.sql.tree.queries import (
    TOTALS,
    conjuncts,
    equates_columns,
    has_totals,
    is_aggregate,
    sources,
    whole_call,
    without_subqueries,
)
from lance_gateway.planner.sql.tree.tree import Tree, find_family, is_unstable, read_name


def cast_keys(tree: Tree) -> None:
    """Hide casts in outputs that are sorted by another output with the name of what is cast.

        SELECT max(i) AS s, CAST(s AS TEXT) AS k FROM t GROUP BY CAST(s AS TEXT) ORDER BY max(i)
    ->  SELECT max(i) AS s, nullif(CAST(s AS TEXT), NULL) AS k FROM t GROUP BY CAST(s AS TEXT)
        ORDER BY max(i)

    DataFusion 55 calls a cast as it calls what is cast, so it takes the first output for the cast, and sorts
    by that one. What nullif() gives has a name of its own.
    """
    for select in tree.find_all(exp.Select)[::-1]:
        if select.args.get("group") is None:
            continue
        outputs = [_find_name(output) for output in select.expressions]
        for place, output in enumerate(list(select.expressions)):
            cast = output.unalias()
            if not isinstance(cast, exp.Cast):
                continue
            named = {read_name(column.this) for column in cast.find_all(exp.Column)}
            if named.intersection(outputs[:place] + outputs[place + 1 :]):
                tree.replace(cast, make_nullable(cast))


def _find_name(output: exp.Expr) -> str | None:
    named = output.args.get("alias") if isinstance(output, exp.Alias) else output.this
    return read_name(named) if isinstance(named, exp.Identifier) else None


_OPPOSITES: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.EQ: exp.EQ,
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
}


def constant_sides(tree: Tree) -> None:
    """Put the constants of comparisons on the right.

        SELECT t.id FROM t JOIN w ON 1 < w.u WHERE w.u >= 1
    ->  SELECT t.id FROM t JOIN w ON w.u > 1 WHERE w.u >= 1

        SELECT id FROM (SELECT id, id = 1 AND 1 = id AS c FROM t) WHERE c
    ->  SELECT id FROM (SELECT id, id = 1 AND id = 1 AS c FROM t) WHERE c

    DataFusion 55 combines the comparisons of a column with constants: `id = 1 AND 1 = id` becomes false, and
    of `1 < id AND id >= 1` only the second is left. Simplifying exchanges the sides first, but not in
    conditions of joins, where the constant is yet to be computed, or in columns that become conditions.
    """
    for node in tree.find_all(*_OPPOSITES):
        constant, value = node.this, node.expression
        # DataFusion reads TRUE = a < 1 as (TRUE = a) < 1.
        is_simple = not isinstance(constant, exp.Predicate) and not isinstance(value, exp.Predicate)
        if not is_simple or constant.find(exp.Column, exp.Query, exp.Star, exp.Window):
            continue
        if value.find(exp.Column) and not value.find(exp.Query, exp.Any, exp.All):
            tree.replace(node, _OPPOSITES[type(node)](this=value, expression=constant))


def repeated_groups(tree: Tree) -> None:
    """Leave out keys of GROUP BY that are others: by their number, or with the name of their relation.

    DataFusion takes the two for different columns, and its result has both. Its own rule that leaves out such
    keys, `eliminate_duplicated_expr`, gives wrong answers elsewhere, and is not used.

        SELECT a.v FROM t AS a GROUP BY v, a.v
    ->  SELECT a.v FROM t AS a GROUP BY a.v

        SELECT k, k AS other, count(*) FROM t GROUP BY 1, 2
    ->  SELECT k, k AS other, count(*) FROM t GROUP BY 1
    """
    for select in tree.find_all(exp.Select)[::-1]:
        group = select.args.get("group")
        if group is None:
            continue
        joins = select.args.get("joins") or []
        sources = [part.this for part in (select.args.get("from_"), *joins) if part is not None]
        relations = {source.alias_or_name.casefold() for source in sources}
        merged = {name.name.casefold() for join in joins for name in join.args.get("using") or ()}
        named = merged | {item.alias.casefold() for item in select.expressions if isinstance(item, exp.Alias)}
        columns = [column for key in group.expressions for column in key.find_all(exp.Column)]
        qualified = {
            column.name.casefold(): column
            for column in columns
            if column.table.casefold() in relations and column.name.casefold() not in named
        }
        for column in columns:
            if not column.table and column.name.casefold() in qualified:
                column.replace(qualified[column.name.casefold()].copy())
        kept: dict[str, exp.Expr] = {}
        for key in group.expressions:
            kept.setdefault(_spell(key, select), key)
        if len(kept) < len(group.expressions):
            tree.replace(group, exp.Group(**{**group.args, "expressions": list(kept.values())}))


def _spell(key: exp.Expr, select: exp.Select) -> str:
    """Return the text of what a key means, which may be the number of an output, in one spelling."""
    meant = key
    if isinstance(key, exp.Literal) and key.is_int:
        before = select.expressions[: int(key.name)]
        if len(before) == int(key.name) and not any(one.is_star for one in before):
            meant = before[-1].unalias()
    if is_unstable(meant):
        return write_sql(key) if meant is key else f"output {key.name}"
    meant = exp.paren(meant).unnest()
    for name in meant.find_all(exp.Identifier):
        name.replace(exp.to_identifier(read_name(name), quoted=True))
    return write_sql(meant)


def keys_of_totals(tree: Tree) -> None:
    """Hide keys of groups with totals that may be the same in all rows, or have the name of another key.

        SELECT n, s, count(*) FROM (SELECT 5 AS n, s FROM t) AS q GROUP BY ROLLUP (n, s)
    ->  SELECT q."key#0" AS n, q."key#1" AS s, count(*)
        FROM (SELECT *, CASE WHEN random() < 2 THEN s END AS "key#1"
            FROM (SELECT *, CASE WHEN random() < 2 THEN n END AS "key#0"
                FROM (SELECT 5 AS n, s FROM t) AS q) AS q) AS q
        GROUP BY ROLLUP (q."key#0", q."key#1")

    DataFusion 55 takes what is constant in the rows for constant in their groups, where it is NULL as well:
    groups come several times, and are not sorted by it. Conditions on groups move by the names of keys alone.
    """
    for select in tree.find_all(exp.Select)[::-1]:
        if not has_totals(select):
            continue
        keys: list[exp.Expr] = []
        for key in list(_list_keys(select.args["group"])):
            meant = key.replace(_find_meant(tree, key, select).copy())
            keys += [meant] if meant not in keys else []
        names = [key.name for key in keys]
        conditions = [one for part in _list_conditions(select) for one in conjuncts(part)]
        fixing = [one for one in conditions if not equates_columns(one)]
        fixed = {column.name for one in fixing for column in one.find_all(exp.Column)}
        are_tables = all(isinstance(one, exp.Table) and one.name in tree.tables for one in sources(select))
        for place, key in enumerate(keys):
            is_plain = isinstance(key, exp.Column) and are_tables and key.name not in fixed
            if not is_plain or names.count(key.name) > 1:
                _hide_key(tree, select, key, f"key#{place}")


def _list_keys(group: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the keys of GROUP BY, those in ROLLUP, CUBE and GROUPING SETS too."""
    for key in group.iter_expressions():
        if isinstance(key, (exp.Paren, exp.Tuple, *TOTALS)):
            yield from _list_keys(key)
        else:
            yield key


def _find_meant(tree: Tree, key: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return the expression of the output that a key is, by its number or its name, or the key."""
    if isinstance(key, exp.Literal) and key.is_int:
        before: list[exp.Expr] = select.expressions[: int(key.name)]
        is_output = len(before) == int(key.name) and not any(one.is_star for one in before)
        return before[-1].unalias() if is_output else key
    if isinstance(key, exp.Column) and not key.table:
        name = read_name(key.this)
        aliased = [one for one in select.selects if isinstance(one, exp.Alias) and _find_name(one) == name]
        if aliased and name not in {one.name for each in sources(select) for one in tree.find_columns(each)}:
            return aliased[0].unalias()
    return key


def _list_conditions(select: exp.Select) -> Iterator[exp.Expr | None]:
    where = select.args.get("where")
    yield where and where.this
    yield from (join.args.get("on") for join in select.args.get("joins") or ())


def _hide_key(tree: Tree, select: exp.Select, key: exp.Expr, name: str) -> None:
    """Hide a key wherever it is among the groups of a SELECT, and in what is computed from them.

    The hidden value is a column of the relation that the key is of, so that conditions on the key still go
    down; a key of several relations, or of none, is hidden in its place.
    """
    field = tree.find_field(key)
    hidden = hide_value(key, None if field is None else field.type)
    relation = _find_relation(tree, select, key)
    if relation is not None:
        tree.replace(relation, select_from(relation, exp.Star(), exp.alias_(hidden, name, quoted=True)))
        hidden = exp.column(name, relation.alias_or_name or None, quoted=True)
    parts = (*select.expressions, *(select.args.get(one) for one in ("group", "having", "qualify", "order")))
    for part in parts:
        for node in list(_read_groups(part)) if part is not None else ():
            if node.parent is not None and _is_same(node, key):
                is_output = node.parent is select and isinstance(node, exp.Column)
                shown = exp.alias_(hidden.copy(), node.this.copy()) if is_output else hidden.copy()
                tree.replace(node, shown)


def _find_relation(tree: Tree, select: exp.Select, key: exp.Expr) -> exp.Expr | None:
    """Return the relation of a SELECT that has all columns of a key; None if there is none."""
    columns = list(key.find_all(exp.Column))
    for relation in sources(select) if columns else ():
        own = {one.name for one in tree.find_columns(relation)}
        tables = {one.table for one in columns} - {""}
        if tables <= {relation.alias_or_name} and all(read_name(one.this) in own for one in columns):
            return relation
    return None


def _read_groups(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression that are computed from groups, not from their rows."""
    yield node
    if not isinstance(node, exp.Query) and not (is_aggregate(node) and node.name.lower() != "grouping"):
        for child in node.iter_expressions():
            yield from _read_groups(child)


def _is_same(node: exp.Expr, key: exp.Expr) -> bool:
    if not (isinstance(node, exp.Column) and isinstance(key, exp.Column)):
        return node == key
    is_of_one = not node.table or not key.table or node.table == key.table
    return is_of_one and read_name(node.this) == read_name(key.this)


def counted_constants(tree: Tree) -> None:
    """Hide distinct values that are counted, unless they are columns of a single table.

        SELECT count(DISTINCT x), count(*) FROM (SELECT CAST(NULL AS TEXT) AS x FROM (VALUES (1))) AS q
    ->  SELECT count(DISTINCT CASE WHEN random() < 2 THEN x END), count(*)
        FROM (SELECT CAST(NULL AS TEXT) AS x FROM (VALUES (1))) AS q

    Where DataFusion knows the number of rows before it reads them, it says that a constant has one distinct
    value: also if it is NULL, or if there are no rows. A count that is alone is planned in another way.
    """
    for select in tree.find_all(exp.Select)[::-1]:
        counts = [one for one in _list_counts(select) if isinstance(one.expressions[0], exp.Distinct)]
        read = sources(select)
        is_table = len(read) == 1 and isinstance(read[0], exp.Table) and read[0].name in tree.tables
        if select.args.get("group"):
            continue
        for value in [value for count in counts for value in count.expressions[0].expressions]:
            if not is_table or value.find(exp.Column) is None:
                tree.replace(value, hide_value(value))


def _list_counts(select: exp.Select) -> Iterator[exp.Expr]:
    for output in (*select.expressions, select.args.get("having")):
        for call in without_subqueries(output) if output is not None else ():
            if isinstance(call, exp.Anonymous) and call.name.lower() == "count" and call.expressions:
                yield call


_PLAIN: Final = (exp.Add, exp.Sub, exp.Mul, exp.Mod)
"""Their order is derived rightly from plain operands, as is that of `1 - l2_distance(v, w)`."""
_PARTIAL: Final = frozenset({"LN", "LOG", "LOG2", "LOG10", "SQRT", "ACOS", "ASIN", "ACOSH", "ATANH"})
"""Functions of some numbers alone, whose order is not even derived rightly from a column."""


def computed_sort_keys(tree: Tree) -> None:
    """Hide how a sort key of several operations is computed.

    DataFusion derives the order of `exp(x / 10)` from that of its operands, does not find that rows which it
    has sorted are in order, and refuses its own plan (`SanityCheckPlan`). So it does with functions that are
    not defined for all numbers, as `ln(x)`. `coalesce` of what may be NULL names its operand twice, so that
    it is computed first, as a column.

        SELECT id FROM t ORDER BY exp(x / 10)
    ->  SELECT id FROM t ORDER BY coalesce(nullif(exp(x / 10), NULL), NULL)
    """
    nested = {column.name for column in tree.columns if pa.types.is_nested(column.type)}
    for key in list(_find_keys(tree)):
        if _is_misleading(key, nested):
            kind, hidden = tree.find_type(key), key.copy()
            # A rounded decimal has other digits than its type has, and nullif() compares it.
            is_decimal = kind is not None and find_family(kind) == "decimal"
            is_rounded = is_decimal and key.unnest().name.upper() == "ROUND"
            for name in ("coalesce",) if is_rounded else ("nullif", "coalesce"):
                hidden = exp.Anonymous(this=name, expressions=[hidden, write_null(tree, key)])
            tree.replace(key, hidden)


def _is_misleading(key: exp.Expr, nested: Collection[str]) -> bool:
    """Return whether DataFusion may derive an order of an expression that it does not find again.

    Args:
        key: the expression.
        nested: names of columns that may have fields, which are computed.
    """
    operation = key.unnest()
    if isinstance(operation, exp.Column) or not operation.find(exp.Column):
        return False
    operands = [operand.unnest() for operand in operation.iter_expressions()]
    if isinstance(operation, _PLAIN):
        return any(_is_misleading(operand, nested) for operand in operands)
    if isinstance(operation, exp.In) or (
        isinstance(operation, exp.Anonymous) and operation.name.upper() in _PARTIAL
    ):
        return True
    is_compared = isinstance(operation, exp.Predicate)
    return any(
        any(part.name in nested for part in (one.parts if is_compared else one.parts[:-1]))
        if isinstance(one, exp.Column)
        else one.find(exp.Column) is not None
        for one in operands
    )


def _find_keys(tree: Tree) -> Iterator[exp.Expr]:
    """Yield the expressions by which queries, windows and calls sort, but for those that must be outputs."""
    for node in tree.find_all(exp.Select, exp.Window, exp.Anonymous):
        order = node.args.get("order")
        if isinstance(node, exp.Anonymous):
            order = next((one for one in node.expressions if isinstance(one, exp.Order)), None)
        is_distinct = node.args.get("distinct") or (
            order is not None and isinstance(order.this, exp.Distinct)
        )
        if order is not None and not is_distinct:
            yield from (key.this for key in order.expressions)
        yield from node.args.get("partition_by") or ()


_LEAST: Final = "CAST('-inf' AS DOUBLE)"
_GREATEST: Final = "CAST('inf' AS DOUBLE)"


def extremes(tree: Tree) -> None:
    """Compute the extremes of numbers in groups from those without NaN, and hide what counts a frame.

        SELECT k, max(f) FROM t GROUP BY k
    ->  SELECT k, coalesce(max(CASE WHEN isnan(f) THEN f END),
            max(CASE WHEN f > CAST('-inf' AS DOUBLE) THEN f END),
            min(CASE WHEN NOT isnan(f) THEN f END)) FROM t GROUP BY k
        SELECT count(*) OVER (PARTITION BY k ORDER BY id ROWS 2 PRECEDING) AS n FROM t ORDER BY n
    ->  SELECT nullif(count(*) OVER (PARTITION BY k ORDER BY id ROWS 2 PRECEDING), NULL) AS n FROM t
        ORDER BY n

    In DataFusion, NaN replaces every extreme of a group and is replaced by everything, so that they depend on
    the order of the rows. It is the greatest number here, as in comparisons and in sorting. An extreme of a
    group begins with the greatest or smallest finite number, which stays where nothing but infinity follows;
    the other extreme is right there. What counts the rows of a frame that leaves rows behind is taken for
    what only grows, and not sorted: of a call, nothing is known.
    """
    for node in tree.find_all(exp.Anonymous, exp.Window)[::-1]:
        if isinstance(node, exp.Window):
            call = node.this.this if isinstance(node.this, exp.Filter) else node.this
            if call.name.lower() == "count" and _leaves_rows(node):
                tree.replace(node, make_nullable(node))
            continue
        select = node.parent_select
        if node.name.lower() not in {"min", "max"} or not isinstance(select, exp.Select):
            continue
        whole = whole_call(node)
        if (
            len(node.expressions) == 1
            and select.args.get("group")
            and not isinstance(whole.parent, exp.Window)
        ):
            (argument,) = node.expressions
            if isinstance(argument, exp.Distinct):
                (argument,) = argument.expressions
            guess = tree.guess_families(argument)
            if guess is not None and "floating" not in guess:
                continue
            kind = tree.find_type(argument)
            if kind is not None and find_family(kind) == "floating":
                tree.replace(whole, _write_extreme(node.name.lower(), argument, whole))


def _write_extreme(name: str, argument: exp.Expr, whole: exp.Expr) -> exp.Expr:
    """Return an extreme of a group in which NaN is the greatest number."""
    value = write_sql(argument)
    rows = f" FILTER ({write_sql(whole.expression).strip()})" if isinstance(whole, exp.Filter) else ""
    if is_unstable(argument) or argument.find(exp.Query):
        direction = " DESC" if name == "max" else ""
        return parse_expression(f"first_value({value} ORDER BY {value}{direction} NULLS LAST){rows}")
    is_nan, is_number = f"isnan({value})", f"NOT isnan({value})"
    if name == "max":
        parts = [("max", is_nan), ("max", f"({value}) > {_LEAST}"), ("min", is_number)]
    else:
        parts = [("min", f"({value}) < {_GREATEST}"), ("max", is_number), ("min", is_nan)]
    calls = (f"{function}(CASE WHEN {when} THEN {value} END){rows}" for function, when in parts)
    return parse_expression(f"coalesce({', '.join(calls)})")


def _leaves_rows(window: exp.Window) -> bool:
    """Return whether the beginning of a frame leaves rows behind."""
    frame, select = window.args.get("spec"), window.parent_select
    if frame is None and window.alias and select is not None:
        named = select.args.get("windows") or ()
        frame = next((one.args.get("spec") for one in named if one.this.name == window.alias), None)
    return frame is not None and frame.args.get("start") != "UNBOUNDED"
