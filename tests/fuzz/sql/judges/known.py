"""Refusals that are known, each with its reason; a refusal of one engine alone is a failure otherwise."""

from collections.abc import Mapping
from types import MappingProxyType

CAUTIOUS: Mapping[str, str] = MappingProxyType(
    {
        "A column can't be called": "it is mistaken for what DataFusion calls so",
        "beside finer ones are not supported": "fractions are lost",
        "A list with CASE, coalesce or": "the list is computed once",
        "would answer a subquery of this statement wrongly": "windows, LIMIT and DISTINCT are not divided",
    }
)
"""Words of what the gateway refuses since DataFusion 55 may answer it wrongly, and how it would.

It refuses more than is wrong, so they are counted: too many of them leave nothing to compare.
"""
LIMITS: Mapping[str, str] = MappingProxyType(
    {
        "too many rows to compare": "the judges hold answers in memory",
        "Can't cast value": "whether it is computed for rows that nobody needs follows from the plan",
        "Cannot run range queries": "DataFusion 55 has no such windows by bytes and durations",
        "has no RANGE: give its frame in ROWS": "DataFusion 55 has no such windows by bytes and durations",
        "SanityCheckPlan": "DataFusion 55 loses the order of rows behind DISTINCT, and says so",
        "No field named __grouping_id": "DataFusion 55 mistakes equal aggregates of parameters",
        "Physical plan does not support": "DataFusion 55 runs some subqueries only as joins",
        "Optimizer rule 'decorrelate": "DataFusion 55 loses columns of some subqueries",
        "Optimizer rule 'scalar_subquery_to_join' failed": "DataFusion 55 loses columns of some subqueries",
        "subquery can only be used in": "DataFusion 55 runs some subqueries only in some clauses",
        "Correlated scalar subquery must be": "DataFusion 55 takes only totals for values",
        "has subqueries that DataFusion does not run": "and what they are joined with is not the same twice",
        "a subquery with EXCEPT or INTERSECT that names": "DataFusion 55 loses its columns beside some joins",
        "null_aware anti join only supports": "DataFusion 55 has no NOT IN over several columns",
        "Schema contains duplicate": "constants have one name in DataFusion, and parameters several",
        "No field named quantified.": "some comparisons with ANY and ALL are not joined, which says no more",
        "is read as it is here": "views have no past",
        "Input field name": "DataFusion 55 loses the name of a subquery's column over rows in memory",
    }
)
"""Words of what DataFusion refuses by itself in one way of asking and not in another, and why."""


def known_refusal(message: str) -> str | None:
    """The words by which a refusal is known; None for one that is not."""
    return next((words for words in (*CAUTIOUS, *LIMITS) if words in message), None)
