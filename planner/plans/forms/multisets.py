"""Writes INTERSECT ALL and EXCEPT ALL, which DataFusion answers without regard to how often a row occurs.

    SELECT a FROM t EXCEPT ALL SELECT b FROM u
->  SELECT "c#1" AS "a" FROM (
        SELECT "c#1", row_number() OVER (PARTITION BY "c#1") AS "n#" FROM (SELECT a FROM t) AS "s#"("c#1")
        EXCEPT
        SELECT "c#1", row_number() OVER (PARTITION BY "c#1") AS "n#" FROM (SELECT b FROM u) AS "s#"("c#1")
    ) AS "m#"

Equal rows are numbered on both sides, so that each has a partner at most once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.sql.tree.dialect import find_query, parse_query, write_sql
from lance_gateway.planner.sql.tree.tree import Family, Tree, find_family

MULTISETS: Final = re.compile(r"\b(?:intersect|except|minus)\s+all\b", re.IGNORECASE)
"""Texts that may have such operations: private names and comments are not in the way."""
_PLAIN_NAME: Final = re.compile(r"\w+")
_ALIKE: Final[frozenset[Family]] = frozenset({"integer", "text"})
"""Types whose values differ in a common type if they differ in their own."""
_KEPT: Final = ("with_", "order", "limit", "offset")
FindSchema: TypeAlias = Callable[[str], pa.Schema]
"""Plans a query, and returns the schema of its result."""


def number_equal_rows(sql: str, find_schema: FindSchema) -> tuple[str, Mapping[str, str]]:
    """Return a statement without these operations.

    Args:
        sql: for DataFusion.
        find_schema: of one of its queries.

    Returns:
        The statement, and name of an output -> the name that clients see, which is that of an expression.

    Raises:
        InvalidInputError: two sides have different numbers of columns.
        UnsupportedError: the columns of a side can't be found, or their types differ.
    """
    start = find_query(sql)
    root = parse_query(sql[start:])
    if root is None:
        msg = "INTERSECT ALL and EXCEPT ALL are not supported beside this syntax: leave ALL out"
        raise UnsupportedError(msg)
    tree = Tree(root, find_schema)
    shown: dict[str, str] = {}
    # Those within others come first.
    for node in list(root.find_all(exp.Except, exp.Intersect))[::-1]:
        if not node.args.get("distinct"):
            sides = [tree.find_outputs(side) for side in (node.this, node.expression)]
            if not all(sides):
                find_schema(sql)  # raises where the statement is wrong for another reason
                msg = (
                    "INTERSECT ALL and EXCEPT ALL are not supported in subqueries that read columns of the "
                    "rows around them: join the subquery, or leave ALL out"
                )
                raise UnsupportedError(msg)
            _check_types(type(node).__name__.upper(), *sides)
            tree.replace(node, _write(node, [field.name for field in sides[0]], shown))
    return (sql[:start] + write_sql(tree.root) if tree.is_changed else sql), shown


def _write(node: exp.SetOperation, names: Sequence[str], shown: dict[str, str]) -> exp.Select:
    """Return the query for an operation whose outputs have some names."""
    columns = [exp.to_identifier(f"c#{number}", quoted=True) for number in range(1, len(names) + 1)]
    sides = [_number_rows(side, columns) for side in (node.this, node.expression)]
    operation = type(node)(this=sides[0], expression=sides[1], distinct=True)
    outputs = [
        exp.alias_(exp.Column(this=column.copy()), _name(name, shown), quoted=True)
        for column, name in zip(columns, names, strict=True)
    ]
    query = exp.Select(expressions=outputs).from_(_alias(operation, "m#"), copy=False)
    for key in _KEPT:
        query.set(key, node.args.get(key))
    return query


def _number_rows(side: exp.Expr, names: Sequence[exp.Identifier]) -> exp.Select:
    columns = [exp.Column(this=name.copy()) for name in names]
    number = exp.Window(
        this=exp.Anonymous(this="row_number"), partition_by=[column.copy() for column in columns]
    )
    outputs = [*columns, exp.alias_(number, "n#", quoted=True)]
    return exp.Select(expressions=outputs).from_(_alias(side, "s#", names), copy=False)


def _alias(query: exp.Expr, name: str, columns: Sequence[exp.Identifier] = ()) -> exp.Subquery:
    alias = exp.TableAlias(
        this=exp.to_identifier(name, quoted=True), columns=[column.copy() for column in columns]
    )
    return exp.Subquery(this=query, alias=alias)


def _name(name: str, shown: dict[str, str]) -> str:
    """Return the name of an output; an expression's must not be that of another column."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    unique = f"?m#{len(shown) + 1}"
    shown[unique] = shown.get(name, name)
    return unique


def _check_types(word: str, left: Sequence[pa.Field], right: Sequence[pa.Field]) -> None:
    if len(left) != len(right):
        counts = f"{len(left)} and {len(right)}"
        raise InvalidInputError(f"{word} ALL takes two sides of as many columns; they have {counts}")
    for one, other in zip(left, right, strict=True):
        if not one.type.equals(other.type) and not _are_alike(one.type, other.type):
            msg = f"{word} ALL takes columns of one type: {one.name!r} is {one.type} on its left"
            raise UnsupportedError(f"{msg} and {other.type} on its right; cast one of them")


def _are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether rows that differ in their own types differ in the common type, too."""
    is_null = pa.types.is_null(one) or pa.types.is_null(other)
    return is_null or (find_family(one) == find_family(other) and find_family(one) in _ALIKE)
