"""What a JDBC client is told when a statement fails."""

import pytest

from tests.jdbc.jvm import Facts, Jvm

pytestmark = pytest.mark.slow

FAILURES = {
    "syntax": "'SELEC' is not supported",
    "unknown table": "Table 'ordres' does not exist; did you mean 'orders'",
    "unknown column": "No field named amout",
    "unknown function": "Invalid function 'frobnicate'",
    "division by zero": "Divide by zero",
    "empty": "The statement is empty",
    "two statements": "Only one statement is allowed",
    "prepare": "Table 'ordres' does not exist",
}


@pytest.fixture(scope="module")
def facts(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Failures", url)


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_a_clear_sql_exception(facts: Facts, name: str) -> None:
    failure = facts.failure(name)
    assert failure.kind == "java.sql.SQLException"
    assert FAILURES[name] in failure.text
    assert "Traceback" not in failure.text
    assert failure.state is None  # the driver translates no status


def test_a_failure_in_the_middle_of_a_stream_is_told(facts: Facts) -> None:
    # ResultSet.next lets the Flight exception through, which is not a SQLException.
    failure = facts.failure("division by zero in the middle")
    assert failure.kind.endswith("FlightRuntimeException")
    assert "Divide by zero" in failure.text
    assert "Traceback" not in failure.text


def test_the_connection_serves_on(facts: Facts) -> None:
    assert facts["afterwards"] == [[1]]
