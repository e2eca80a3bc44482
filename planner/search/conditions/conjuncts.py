"""Conditions on a search's rows: which apply before ranking, and which after."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from memwal.errors import UnsupportedError
from planner.predicates.predicate import And, conjunction, decode
from planner.predicates.row_filter import PredicateFilter, columns_of, is_understood


@dataclass(frozen=True, slots=True)
class SearchConditions:
    """The conjuncts of one search.

    Attributes:
        before: on columns of the table, to be met by every row that is ranked; None admits all.
        after: on the rows that were found; None keeps all.
    """

    before: PredicateFilter | None
    after: PredicateFilter | None


def divided_conditions(
    expression: pc.Expression | None, schema: pa.Schema, added: AbstractSet[str], *, prefilter: bool
) -> SearchConditions:
    """Divide the conjuncts on a search's rows.

    Args:
        expression: all of them; None where there are none.
        schema: of the rows.
        added: columns that the search adds: what they must be can't be known before ranking.
        prefilter: whether conjuncts on other columns apply before ranking.

    Raises:
        UnsupportedError: a conjunct on both kinds of columns that can't be taken apart.
    """
    if expression is None:
        return SearchConditions(None, None)
    whole = PredicateFilter(decode(expression, schema), expression)
    if not prefilter:
        return SearchConditions(None, whole)
    if whole.columns.isdisjoint(added):
        return SearchConditions(whole, None)
    operands = whole.predicate.operands if isinstance(whole.predicate, And) else (whole.predicate,)
    if not all(map(is_understood, operands)):
        msg = (
            f"a condition on {', '.join(sorted(whole.columns & added))} stands beside one that can't apply "
            "before ranking: put the search into a subquery and the former outside, or say prefilter => false"
        )
        raise UnsupportedError(msg)
    early = [one for one in operands if added.isdisjoint(columns_of(one))]
    late = [one for one in operands if not added.isdisjoint(columns_of(one))]
    always = pc.scalar(value=True)
    before = PredicateFilter(conjunction(early), always) if early else None
    return SearchConditions(before, PredicateFilter(conjunction(late), always))
