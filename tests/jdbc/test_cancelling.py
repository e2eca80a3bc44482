"""Statements that are stopped over JDBC, and that the gateway stops their work."""

import pytest

from tests.jdbc.jvm import Facts, Jvm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def facts(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Cancelling", url, f"driver {jvm.version}")


def test_a_statement_is_cancelled_from_another_thread(facts: Facts) -> None:
    # Closing the stream races with the thread that reads it; the driver may then count its buffers twice.
    # What counts is that the statement stops: `test_the_gateway_has_stopped_their_work`.
    race = "refcnt has gone negative"
    outcome = facts.all()["cancel"]
    assert outcome == "done" or race in facts.failure("cancel").text.lower()
    # The driver notices in one of two places, and says so in words of that place.
    told = facts.failure("a stream that is cancelled").text.lower()
    assert "cancel" in told or (outcome != "done" and race in told)


def test_a_result_may_be_closed_before_its_end(facts: Facts) -> None:
    assert facts["closed early"] is True


def test_a_statement_times_out(facts: Facts) -> None:
    assert "Query timed out after 1 SECONDS" in facts.failure("a statement that times out").text


def test_the_connection_serves_on(facts: Facts) -> None:
    assert facts["afterwards"] == [[1]]


def test_the_gateway_has_stopped_their_work(facts: Facts) -> None:
    assert facts["what became of them"] == [["cancelled"], ["cancelled"], ["cancelled"]]
