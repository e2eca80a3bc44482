"""Every function through a gateway with workers, called by somebody who may read nothing.

`LANCE_GATEWAY_FUNCTION_KINDS` and `LANCE_GATEWAY_FUNCTION_CALLS` scale the soak test.
"""

import os

import pytest

from tests.fuzz.functions.calls import CALLS_OF_KINDS, KINDS_OF_A_FUNCTION
from tests.fuzz.functions.served import GROUP_BYTES, run

PARTS = 100


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.soak
def test_some_functions_answer_or_refuse() -> None:
    verdicts = run(kinds=1, calls=2, part=7, parts=PARTS)
    assert verdicts.counts.total() > 5
    assert not verdicts.surprises, verdicts.surprises


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_every_function_answers_or_refuses_and_the_front_lives() -> None:
    kinds = int(os.environ.get("LANCE_GATEWAY_FUNCTION_KINDS", KINDS_OF_A_FUNCTION))
    calls = int(os.environ.get("LANCE_GATEWAY_FUNCTION_CALLS", CALLS_OF_KINDS))
    verdicts = run(kinds, calls)
    assert verdicts.counts["rows"] > kinds * calls, verdicts.counts
    assert not verdicts.surprises, verdicts.surprises
    assert verdicts.peak_bytes <= GROUP_BYTES
