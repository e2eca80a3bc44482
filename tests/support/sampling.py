"""Samples of test parameters: `make test` runs the sample, and `make soak` the other parameters."""

from collections.abc import Iterable
from typing import Any

import pytest


def sample(values: Iterable[Any], count: int) -> list[Any]:
    """Mark all but `count` evenly spaced parameters as `soak`.

    Args:
        values: of one parameter, or of several at once as tuples or `pytest.param`.
        count: number of parameters that `make test` runs.
    """
    listed = list(values)
    kept = {index * len(listed) // count for index in range(count)}
    return [one if index in kept else _leave_to_soak(one) for index, one in enumerate(listed)]


def _leave_to_soak(value: Any) -> Any:
    if hasattr(value, "marks"):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.soak], id=value.id)
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.soak)
