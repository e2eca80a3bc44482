"""Ranges whose bounds come in any order, and patterns with an escape character."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.tree.tree import Tree, is_unstable


def symmetric_ranges(tree: Tree) -> None:
    """Write BETWEEN SYMMETRIC as two ranges; ASYMMETRIC is the default.

        SELECT id FROM t WHERE n BETWEEN SYMMETRIC $1 AND $2
    ->  SELECT id FROM t WHERE (n BETWEEN $1 AND $2 OR n BETWEEN $2 AND $1)

    Raises:
        UnsupportedError: a value would be computed twice, and changes.
    """
    for node in tree.find_all(exp.Between):
        is_symmetric = node.args.get("symmetric")
        if is_symmetric is None:
            continue
        tree.note_change()
        node.set("symmetric", None)
        if not is_symmetric:
            continue
        if is_unstable(node):
            raise tree.error(
                node,
                "BETWEEN SYMMETRIC of values that change is not supported: compute them in a subquery",
                UnsupportedError,
            )
        other = node.copy()
        other.set("low", node.args["high"].copy())
        other.set("high", node.args["low"].copy())
        tree.replace(node, exp.paren(exp.or_(node.copy(), other, copy=False), copy=False))


_WILDCARDS: Final = frozenset("%_")


def like_escapes(tree: Tree) -> None:
    r"""Escape patterns with the backslash, the only escape character that DataFusion has.

        SELECT id FROM t WHERE name LIKE 'a!_%' ESCAPE '!'
    ->  SELECT id FROM t WHERE name LIKE 'a\_%'

    A pattern that is not a literal is translated when it is computed, by replace().

    Raises:
        UnsupportedError: the pattern is not text, or the escape character is not valid.
    """
    for clause in tree.find_all(exp.Escape):
        condition, character = clause.this, clause.expression
        if not isinstance(character, exp.Literal) or not character.is_string or character.name == "\\":
            continue
        mark = character.name
        if len(mark) > 1 or mark in _WILDCARDS:
            message = f"ESCAPE takes one character that is not a wildcard, and not {mark!r}"
            raise tree.error(character, message, UnsupportedError)
        pattern = condition.expression
        is_number = isinstance(pattern.unnest(), exp.Binary) and not isinstance(pattern.unnest(), exp.DPipe)
        if not isinstance(condition, exp.Like | exp.ILike) or isinstance(pattern, exp.Any) or is_number:
            message = "ESCAPE is not supported except behind LIKE with a text"
            raise tree.error(condition, message, UnsupportedError)
        if isinstance(pattern, exp.Literal):
            pattern = exp.Literal.string(_translate(pattern.name, mark))
        else:
            pattern = _translate_computed(pattern, mark)
        condition.set("expression", pattern)
        tree.replace(clause, condition)


def _translate(pattern: str, mark: str) -> str:
    """Return the pattern with backslashes for the escape character; an empty one escapes nothing."""
    characters = iter(pattern)
    return "".join(
        f"\\{next(characters, '')}" if mark and one == mark else "\\\\" if one == "\\" else one
        for one in characters
    )


def _translate_computed(pattern: exp.Expr, mark: str) -> exp.Expr:
    quoted = exp.Literal.string(mark)
    doubled = exp.Literal.string(mark * 2)
    backslash, two = exp.Literal.string("\\"), exp.Literal.string("\\\\")
    # A temporary replacement for a doubled escape character.
    instead = exp.Anonymous(this="chr", expressions=[exp.Literal.number(1)])
    steps: list[tuple[exp.Expr, exp.Expr]] = [(backslash, two)]
    if mark:
        steps += [(doubled, instead), (quoted, backslash), (instead, quoted)]
    for old, new in steps:
        pattern = exp.Anonymous(this="replace", expressions=[pattern, old.copy(), new.copy()])
    return pattern
