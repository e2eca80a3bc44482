"""Parameters that are operands of arithmetic are found, whatever else the statement reads."""

from typing import Any

import pyarrow as pa
import pytest

from tests.planner.names import bound


@pytest.mark.parametrize(
    ("sql", "computed"),
    [
        ("SELECT id / ? FROM orders WHERE qty = ?", {0: None}),
        ("SELECT id FROM orders WHERE qty > (($1)) * 2 AND id = $2", {0: None}),
        ("SELECT id / ? FROM recent WHERE qty = ?", {0: None}),
        ("EXPLAIN SELECT ? - id FROM recent", {0: None}),
        ("SELECT id FROM recent WHERE qty = ?", {}),
        ("SELECT id FROM orders WHERE now() > (?) - INTERVAL '1 day'", {0: pa.timestamp("us")}),
        ("SELECT now() - INTERVAL '1 day' * ? FROM orders", {0: pa.int64()}),
    ],
)
def test_operands_of_arithmetic_are_found(sql: str, computed: dict[int, Any]) -> None:
    assert bound(sql).computed == computed
