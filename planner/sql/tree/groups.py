"""Expressions that DataFusion brings to one type, and how they are given another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.sql.tree.dialect import parse_expression, write_sql
from lance_gateway.planner.sql.tree.queries import is_outermost
from lance_gateway.planner.sql.tree.tree import Family, Tree
from lance_gateway.planner.sql.type_names import name_type
from lance_gateway.planner.sql.value_texts import read_bytes

_COMPARISONS: Final = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.NullSafeEQ, exp.NullSafeNEQ),
)
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_GROUPING: Final = (
    *(*_COMPARISONS, *_ARITHMETIC),
    *(exp.In, exp.Between, exp.Case, exp.Anonymous, exp.Array, exp.Values),
)
_FUNCTIONS: Final = frozenset({"COALESCE", "GREATEST", "LEAST", "NULLIF", "MAKE_ARRAY"})
"""Functions whose arguments are brought to one type."""
_DIVISORS: Final = frozenset({"GCD", "LCM"})
"""Functions that compute with whole numbers, or decimals."""

Cast: TypeAlias = Callable[[exp.Expr], exp.Expr]
"""Makes an expression of another type of one."""
Kinds: TypeAlias = Sequence[pa.DataType | None]
"""Types of expressions; None for one that is not known."""


class Use(Enum):
    """What is done with the values of a group."""

    COMPARED = auto()
    COMPUTED = auto()
    RETURNED = auto()
    """They are values of one result, as those of the branches of CASE."""


@dataclass(frozen=True, slots=True)
class Group:
    """Expressions that DataFusion brings to one type.

    Attributes:
        use: of their values.
        node: whose operands they are.
        members: the expressions; a subquery is one, for its only column.
    """

    use: Use
    node: exp.Expr
    members: Sequence[exp.Expr]

    @property
    def is_condition(self) -> bool:
        """Whether the group gives a boolean, and none of its values."""
        return self.use is Use.COMPARED and not isinstance(self.node, exp.Anonymous)


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the queries that a set operation unites.

    Attributes:
        query: the query.
        fields: its outputs.
        items: their expressions without aliases; None if the list does not tell them, as `*`.
    """

    query: exp.Query
    fields: Sequence[pa.Field]
    items: Sequence[exp.Expr] | None


def find_groups(tree: Tree) -> Iterator[Group]:
    """Yield the groups of a query from the inside out, so that operands have the types that are planned.

    Parentheses around members are left out, as DataFusion leaves them out.
    """
    for node in tree.find_all(*_GROUPING)[::-1]:
        yield from tree.read_once(_read_groups, node)


def find_unions(tree: Tree) -> Iterator[Sequence[Branch]]:
    """Yield what each set operation unites, from the inside out, but for those that can't be planned."""
    for node in tree.find_all(exp.SetOperation)[::-1]:
        if not isinstance(_skip_brackets(node.parent), exp.SetOperation):
            queries = list(_list_branches(node))
            branches = [Branch(query, tree.find_outputs(query), _list_items(query)) for query in queries]
            if len({len(branch.fields) for branch in branches}) == 1:
                yield branches


@dataclass(frozen=True, slots=True)
class Side:
    """A column of a relation by which USING or NATURAL joins it.

    Attributes:
        relation: a table or a subquery.
        columns: of the relation.
        field: the column.
    """

    relation: exp.Expr
    columns: Sequence[pa.Field]
    field: pa.Field


def find_shared_columns(tree: Tree) -> Iterator[Sequence[Side]]:
    """Yield the columns that joins by names compare, each as its sides."""
    for select in tree.find_all(exp.Select)[::-1]:
        for join in select.args.get("joins") or ():
            if join.args.get("using") or join.method == "NATURAL":
                yield from _list_shared_columns(tree, select, join)


def _list_shared_columns(tree: Tree, select: exp.Select, join: exp.Join) -> Iterator[Sequence[Side]]:
    joins = select.args["joins"]
    before = [select.args["from_"].this, *(one.this for one in joins[: joins.index(join)])]
    right = tree.find_columns(join.this)
    named = join.args.get("using") or ()
    using = {name.name if name.args.get("quoted") else name.name.lower() for name in named}
    for field in right:
        if using and field.name not in using:
            continue
        sides = [
            Side(relation, columns, one)
            for relation in before
            for columns in [tree.find_columns(relation)]
            for one in columns
            if one.name == field.name
        ]
        if sides:
            yield [*sides, Side(join.this, right, field)]


def recast_column(tree: Tree, side: Side, cast: Cast) -> None:
    """Give a column of a relation another type, by a subquery in the place of the relation."""
    columns = []
    for field in side.columns:
        column = exp.column(exp.to_identifier(field.name, quoted=True))
        is_cast = field.name == side.field.name
        columns.append(exp.alias_(cast(column), field.name, quoted=True) if is_cast else column)
    alias = exp.TableAlias(this=exp.to_identifier(side.relation.alias_or_name, quoted=True))
    query = exp.select(*columns).from_(side.relation.copy())
    tree.replace(side.relation, exp.Subquery(this=query, alias=alias))


def _list_items(query: exp.Query) -> list[exp.Expr] | None:
    if not isinstance(query, exp.Select) or any(item.is_star for item in query.expressions):
        return None
    return [_strip_brackets(item.unalias()) for item in query.expressions]


def unify_types(
    tree: Tree, families: Sequence[Family], choose: Callable[[Kinds], Sequence[Cast | None]]
) -> None:
    """Cast what DataFusion would bring to a type that it should not have, but for operands of arithmetic.

    Args:
        tree: of the query.
        families: groups without an expression of each are left alone.
        choose: returns how each of some expressions is cast, given their types.
    """
    for group in find_groups(tree):
        if group.use is not Use.COMPUTED and tree.may_mix(group.members, *families):
            kinds = [tree.find_type(member) for member in group.members]
            for member, cast in zip(group.members, choose(kinds), strict=True):
                if cast is not None:
                    recast(tree, member, cast)
    for branches in find_unions(tree):
        columns = zip(*([field.type for field in branch.fields] for branch in branches), strict=True)
        rows = zip(*map(choose, columns), strict=True)
        for branch, row in zip(branches, rows, strict=False):
            recast_outputs(tree, branch, {at: cast for at, cast in enumerate(row) if cast is not None})
    for sides in find_shared_columns(tree):
        for side, cast in zip(sides, choose([side.field.type for side in sides]), strict=True):
            if cast is not None:
                recast_column(tree, side, cast)


def read_hex(node: exp.Expr) -> exp.HexString | None:
    r"""Return the bytes of a literal such as '\xDEADBEEF', as PostgreSQL reads them; None for others.

    Raises:
        InvalidInputError: something else than pairs of digits is behind `\x`.
    """
    is_text = isinstance(node, exp.ByteString) or (isinstance(node, exp.Literal) and node.is_string)
    if not is_text or not node.name.startswith("\\x"):
        return None
    try:
        return exp.HexString(this=read_bytes(node.name).hex())
    except ValueError as error:
        raise InvalidInputError(str(error)) from None


def name_literals(tree: Tree) -> Mapping[str, Sequence[exp.Expr]]:
    """Return what columns of VALUES and of other queries are that consist of literals, by their names."""
    found: dict[str, list[exp.Expr]] = {}
    for alias in tree.find_all(exp.Alias):
        found.setdefault(alias.alias.casefold(), []).append(alias.this)
    for values in tree.find_all(exp.Values):
        above: exp.Expr | None = values
        while above is not None and not above.alias_column_names:
            above = above.parent
        names = [] if above is None else above.alias_column_names
        for row in values.find_all(exp.Tuple):
            for name, cell in zip(names, row.expressions, strict=False):
                found.setdefault(name.casefold(), []).append(cell)
    columns = {column.name.casefold() for column in tree.columns}
    known = {name: [one for one in cells if not isinstance(one, exp.Null)] for name, cells in found.items()}
    return {
        name: cells for name, cells in known.items() if name not in columns and all(map(is_literal, cells))
    }


def list_literals(member: exp.Expr, named: Mapping[str, Sequence[exp.Expr]]) -> Sequence[exp.Expr]:
    """Return the literals that an expression gives: itself, its results, or what `name_literals` found."""
    match member:
        case exp.Column():
            return named.get(member.name.casefold(), ())
        case exp.Paren() | exp.Alias() | exp.Subquery():
            return list_literals(member.this, named)
        case exp.Select():
            return list_literals(member.expressions[0], named) if len(member.expressions) == 1 else ()
        case exp.Anonymous(this=name, expressions=[value, exp.Null()]) if name.upper() == "NULLIF":
            return list_literals(value, named)
        case exp.Case():
            results = [*(branch.args["true"] for branch in member.args["ifs"]), member.args.get("default")]
            known = [one for one in results if one is not None and not isinstance(one, exp.Null)]
            found = [list_literals(one, named) for one in known]
            return [literal for literals in found for literal in literals] if all(found) else ()
    return (member,) if is_literal(member) else ()


def is_literal(node: exp.Expr) -> bool:
    """Return whether an expression is a text, a number, or a text with a type, as DATE '..'."""
    return isinstance(node.this if isinstance(node, exp.Cast) else node, exp.Literal)


def recast(tree: Tree, member: exp.Expr, cast: Cast) -> None:
    """Give a member of a group another type."""
    is_quantified = isinstance(member.parent, exp.Any | exp.All)
    if isinstance(member, exp.Query) and (member.arg_key == "query" or is_quantified):
        query = member.this if isinstance(member, exp.Subquery) else member
        recast_outputs(tree, Branch(query, tree.find_outputs(query), _list_items(query)), {0: cast})
    else:
        tree.replace(member, cast(member.copy()))


def cast_to(expression: exp.Expr, kind: pa.DataType) -> exp.Expr:
    """Return a cast to an Arrow type, for which SQL may have no name."""
    call = parse_expression(f"arrow_cast(x, '{name_type(kind)}')")
    call.expressions[0].replace(expression)
    return call


def make_nullable(expression: exp.Expr) -> exp.Expr:
    """Return `nullif(x, NULL)`: the value of an expression, which DataFusion does not take for never NULL."""
    return exp.Anonymous(this="nullif", expressions=[expression.copy(), exp.null()])


def replace_value(tree: Tree, node: exp.Expr, replacement: exp.Expr) -> None:
    """Replace an expression, which keeps its name if it is an output of a query in another one.

    Outputs of the statement are named after its text as it was written.
    """
    select = node.parent
    if isinstance(select, exp.Select) and node.arg_key == "expressions" and not is_outermost(select):
        field = tree.find_field(node)
        replacement = exp.alias_(replacement, write_sql(node) if field is None else field.name, quoted=True)
    tree.replace(node, replacement)


def recast_outputs(tree: Tree, branch: Branch, casts: Mapping[int, Cast]) -> None:
    """Give outputs of a query another type.

    Args:
        tree: in which the query is.
        branch: the query.
        casts: place of an output -> how.
    """
    if not casts:
        return
    query, fields = branch.query, branch.fields
    if branch.items is not None:
        for at, cast in casts.items():
            item = query.expressions[at]
            new = cast(item.unalias().copy())
            if isinstance(item, exp.Alias):
                tree.replace(item.this, new)
            else:
                name = fields[at].name if fields else "x"
                tree.replace(item, exp.alias_(new, name, quoted=True))
        return
    names = [f"c{at}" for at in range(len(fields))]
    outputs = [
        exp.alias_(
            casts[at](exp.column(name)) if at in casts else exp.column(name), fields[at].name, quoted=True
        )
        for at, name in enumerate(names)
    ]
    alias = exp.TableAlias(this=exp.to_identifier("q"), columns=[exp.to_identifier(name) for name in names])
    tree.replace(query, exp.select(*outputs).from_(exp.Subquery(this=query.copy(), alias=alias)))


def _read_groups(node: exp.Expr) -> Sequence[Group]:
    return [
        replace(group, members=[_strip_brackets(member) for member in group.members])
        for group in _list_groups(node)
    ]


def _list_groups(node: exp.Expr) -> Iterator[Group]:
    if isinstance(node, _COMPARISONS):
        yield Group(Use.COMPARED, node, (node.this, _unwrap_any(node.expression)))
    elif isinstance(node, _ARITHMETIC):
        yield Group(Use.COMPUTED, node, (node.this, node.expression))
    elif isinstance(node, exp.In):
        query = node.args.get("query")
        yield Group(Use.COMPARED, node, (node.this, *node.expressions, *([query] if query else [])))
    elif isinstance(node, exp.Between):
        yield Group(Use.COMPARED, node, (node.this, node.args["low"], node.args["high"]))
    elif isinstance(node, exp.Case):
        branches, default = node.args["ifs"], node.args.get("default")
        if node.this is not None:
            yield Group(Use.COMPARED, node, (node.this, *(branch.this for branch in branches)))
        results = [branch.args["true"] for branch in branches]
        yield Group(Use.RETURNED, node, results if default is None else [*results, default])
    elif isinstance(node, exp.Anonymous | exp.Array):
        name = "MAKE_ARRAY" if isinstance(node, exp.Array) else node.name.upper()
        if name in _DIVISORS:
            yield Group(Use.COMPUTED, node, node.expressions)
        elif name in _FUNCTIONS:
            yield Group(Use.COMPARED if name == "NULLIF" else Use.RETURNED, node, node.expressions)
    elif isinstance(node, exp.Values):
        rows = [row.expressions for row in node.expressions if isinstance(row, exp.Tuple)]
        for column in zip(*rows, strict=False):
            yield Group(Use.RETURNED, node, column)


def find_quantified(node: exp.Expr) -> exp.Expr | None:
    """Return the list of `x = ANY (list)` or `x <> ALL (list)`; None for other expressions."""
    operand = node.expression if isinstance(node, _COMPARISONS) else None
    # sqlglot reads ALL before a list as a function.
    if isinstance(operand, exp.Anonymous) and operand.name.upper() == "ALL" and operand.expressions:
        return operand.expressions[0]  # type: ignore[no-any-return]
    is_list = isinstance(operand, exp.Any) and not isinstance(operand.this.unnest(), exp.Query)
    return operand.this if operand is not None and is_list else None


def _unwrap_any(operand: exp.Expr) -> exp.Expr:
    """Return the subquery of `= ANY (SELECT ..)`; other operands as they are."""
    is_quantified = isinstance(operand, exp.Any | exp.All) and isinstance(operand.this, exp.Query)
    return operand.this if is_quantified else operand


def _strip_brackets(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _skip_brackets(node: exp.Expr | None) -> exp.Expr | None:
    while isinstance(node, exp.Subquery | exp.Paren) and not node.args.get("alias"):
        node = node.parent
    return node


def _list_branches(query: exp.Expr) -> Iterator[exp.Query]:
    while isinstance(query, exp.Subquery | exp.Paren) and not query.args.get("with_"):
        query = query.this
    if isinstance(query, exp.SetOperation):
        yield from _list_branches(query.this)
        yield from _list_branches(query.expression)
    elif isinstance(query, exp.Query):
        yield query
