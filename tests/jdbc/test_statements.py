"""Statements and prepared statements over JDBC: one after the other, again, in batches, side by side."""

import pytest

from tests.jdbc.jvm import Facts, Jvm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def facts(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Statements", url)


def test_rows_are_the_newest(facts: Facts) -> None:
    assert facts["rows"] == [[0, "customer 0", 0.0], [1, "customer 1", 100.5], [3, "customer 3", 1.5]]


def test_a_statement_is_executed_and_its_result_fetched(facts: Facts) -> None:
    assert facts["execute"] == [True, -1]
    assert facts["its result"] == [[1]]
    assert facts["more results"] is False


def test_a_statement_serves_again(facts: Facts) -> None:
    assert facts["the same statement again"] == [[1000]]
    assert facts["no rows"] == []


def test_a_plan_is_explained(facts: Facts) -> None:
    kinds = [kind for kind, _ in facts["EXPLAIN"]]
    assert kinds == ["logical_plan", "physical_plan"]


def test_columns_are_found_by_label_whatever_its_case(facts: Facts) -> None:
    assert facts["by label and name"] == [7, 3.5, 2]


def test_columns_may_share_a_name(facts: Facts) -> None:
    assert facts["columns of one name"] == ["id", 7, "id", 3.5, "count(*)", 1, "count(*)", 1]


def test_null_is_told_from_zero(facts: Facts) -> None:
    assert facts["NULL is told"] == [0.0, True]


def test_large_results_arrive_whole(facts: Facts) -> None:
    assert facts["many rows"] == [1_000_000, 500_000_500_000]
    assert facts["a wide value"] == 3_000_000


def test_the_driver_limits_rows(facts: Facts) -> None:
    assert facts["fetch size"] == 2
    assert facts["at most 3 rows"] == [[0], [1], [3]]


def test_a_prepared_statement_is_described(facts: Facts) -> None:
    assert facts["parameters"] == 2
    assert facts["parameter types"] == ["Int(64, true)", "Utf8"]
    assert facts["columns before execution"] == "id"


def test_a_prepared_statement_is_executed_with_other_values(facts: Facts) -> None:
    assert facts["more than 995"] == []
    assert facts["more than 990"] == [[995]]
    assert facts["more than 10000"] == []
    assert facts["execute prepared"] is True
    assert facts["what it found"] == [[996]]


def test_a_statement_may_be_closed_twice(facts: Facts) -> None:
    assert facts["closed twice"] is True


def test_the_driver_runs_a_query_as_an_update_without_rows(facts: Facts) -> None:
    assert facts["executeUpdate of a query"] == -1


def test_a_batch_of_a_query_is_refused(facts: Facts) -> None:
    assert "execute it as a query" in facts.failure("executeBatch of a query").text


def test_threads_share_a_connection(facts: Facts) -> None:
    assert facts["side by side"] == [-1 if number == 2 else number for number in range(32)]
