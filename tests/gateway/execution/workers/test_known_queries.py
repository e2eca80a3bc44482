"""What a worker remembers of the statements that it has run."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from lance_gateway.gateway.execution.workers.worker import KnownQueries
from lance_gateway.planner.engine import DEFAULT_SETTINGS
from lance_gateway.planner.plans.plan_cache import MAX_PLANS
from lance_gateway.planner.scans.settings import Shortcut

PASSING = replace(DEFAULT_SETTINGS, shortcuts=DEFAULT_SETTINGS.shortcuts - {Shortcut.KEPT_PLANS})


def test_statements_that_are_not_worth_keeping_take_no_place_of_others() -> None:
    known, kept = KnownQueries(), Mock()
    known.put(0, kept, DEFAULT_SETTINGS)
    for number in range(1, 10 * MAX_PLANS):
        passing = Mock
        known.put(number, passing, PASSING)  # type: ignore[arg-type]
        assert known.get(number) is passing
    assert known.get(0) is kept
    assert known.get(1) is None
    assert len(known) < 100


@pytest.mark.parametrize("settings", [DEFAULT_SETTINGS, PASSING])
def test_those_that_were_used_last_are_known(settings: object) -> None:
    known, first = KnownQueries(), Mock()
    known.put(0, first, settings)  # type: ignore[arg-type]
    for number in range(1, 2 * MAX_PLANS):
        known.put(number, Mock, settings)  # type: ignore[arg-type]
        assert known.get(0) is first
    assert len(known) <= MAX_PLANS
