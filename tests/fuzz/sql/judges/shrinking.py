"""Making the statement of a failure small while the failure stays the same."""

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.sql.grammar.statement import Statement
from tests.fuzz.sql.grammar.tree import AbstainError, Node, Reader, render

MAX_TRIALS = 3000


def shrink(
    statement: Statement, fails: Callable[[Statement], bool], *, trials: int = MAX_TRIALS
) -> Statement:
    """The smallest statement found that still fails.

    Args:
        fails: whether a statement fails in the same way.
        trials: how many statements are tried at most.
    """
    seen: set[str] = set()
    left = trials
    while left > 0:
        for smaller in _smaller(statement):
            text = _text(smaller.node)
            if text is None or text in seen or len(text) > len(_text(statement.node) or ""):
                continue
            seen.add(text)
            left -= 1
            if fails(smaller):
                statement = smaller
                break
            if left <= 0:
                break
        else:
            return statement
    return statement


def _smaller(statement: Statement) -> list[Statement]:
    found = [replace(statement, node=node) for node in statement.node.variants()]
    return sorted(found, key=lambda one: len(_text(one.node) or ""))


def _text(node: Node) -> str | None:
    try:
        return render(node, Reader.DATAFUSION)[0]
    except (AbstainError, AssertionError, ValueError):
        return None
