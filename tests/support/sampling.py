"""Parameters of tests, some of which stand for all of them until the soak."""

from collections.abc import Iterable
from typing import Any

import pytest


def sample(values: Iterable[Any], count: int) -> list[Any]:
    """Return parameters of a test: so many, spread evenly, for each change, and the others for the soak.

    Args:
        values: of one parameter, or of several at once as tuples or `pytest.param`.
        count: of those that every run tries.
    """
    listed = list(values)
    kept = {index * len(listed) // count for index in range(count)}
    return [one if index in kept else _leave_to_soak(one) for index, one in enumerate(listed)]


def _leave_to_soak(value: Any) -> Any:
    if hasattr(value, "marks"):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.soak], id=value.id)
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.soak)
