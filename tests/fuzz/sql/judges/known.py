"""Refusals that are known, each with its reason; a refusal of one engine alone is a failure otherwise."""

from collections.abc import Mapping
from types import MappingProxyType

KNOWN_REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        "not offered": "the gateway refuses what DataFusion 54 would answer wrongly",
        "A condition on constants alone": "as above",
        "taken together with it wrongly": "as above",
        "SanityCheckPlan": "DataFusion 54 loses the order of rows behind DISTINCT, and says so",
        "No field named __grouping_id": "DataFusion 54 can't type GROUPING SETS beside parameters",
        "Physical plan does not support logical": "DataFusion 54 runs some subqueries only as joins",
        "null_aware anti join only supports": "DataFusion 54 has no NOT IN over several columns",
        "Invalid comparison operation": "DataFusion 54 compares unlike types without pushdown",
        "Schema contains duplicate": "constants have one name in DataFusion, and parameters several",
        "is declared as non-nullable": "DataFusion 54 takes TRY_CAST of a constant for never NULL",
        "Input field name": "DataFusion 54 loses the name of a subquery's column over rows in memory",
    }
)
"""Words of a refusal, and why it is none of the gateway's making."""


def is_known_refusal(message: str) -> bool:
    """Whether this is one of them."""
    return any(words in message for words in KNOWN_REFUSALS)
