"""Parameters that are operands of arithmetic are found, whatever else the statement reads."""

import pytest

from tests.planner.names import bound


@pytest.mark.parametrize(
    ("sql", "computed"),
    [
        ("SELECT id / ? FROM orders WHERE qty = ?", {0}),
        ("SELECT id FROM orders WHERE qty > (($1)) * 2 AND id = $2", {0}),
        ("SELECT id / ? FROM recent WHERE qty = ?", {0}),
        ("EXPLAIN SELECT ? - id FROM recent", {0}),
        ("SELECT id FROM recent WHERE qty = ?", set()),
    ],
)
def test_operands_of_arithmetic_are_found(sql: str, computed: set[int]) -> None:
    assert bound(sql).computed == computed
