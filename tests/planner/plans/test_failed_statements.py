"""What clients are told of statements that DataFusion refuses for what they say."""

import pytest
from datafusion import SessionContext

from memwal.errors import InvalidInputError
from planner.plans.errors import translate_error
from tests.planner.names import ORDERS, bound


def refusal(sql: str) -> str:
    context = SessionContext()
    context.register_record_batches("orders", [ORDERS.to_batches()])
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the bindings raise
        context.sql(sql).collect()
    error = translate_error(caught.value, bound(sql), None)
    assert isinstance(error, InvalidInputError)
    return str(error)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT sum(item) FROM orders",
            "the function 'sum' does not take these arguments: it requires Decimal, but received String",
        ),
        ("SELECT round('a', item) FROM orders", "the function 'round' does not take these arguments: it"),
    ],
)
def test_a_function_says_what_it_takes(sql: str, message: str) -> None:
    told = refusal(sql)
    assert told.startswith(message)
    assert "nternal error" not in told
    assert "bug" not in told
    assert "Error during planning" not in told


def test_a_pattern_that_is_computed_is_the_statements_fault() -> None:
    assert "unopened group" in refusal("SELECT 'a' ~ concat('a', ')') FROM orders")
    assert "did not compile: CompiledTooBig" in refusal(
        "SELECT item ~ concat('(a{1000}){1000}', item) FROM orders"
    )
