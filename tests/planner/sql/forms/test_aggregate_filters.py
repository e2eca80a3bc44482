"""Conditions of aggregates are truth values, or become such. DuckDB judges."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.judging.judged import Judged, open_judged

T = pa.table({"k": [1, 2, 1], "v": [10, 20, None], "b": [True, None, False]})


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("filters"), {"t": T}) as opened:
        yield opened


@pytest.mark.parametrize(
    "condition",
    [
        "NULL",
        "(NULL)",
        "coalesce(NULL, NULL)",
        "b",
        "coalesce(b, k = 2)",
        "NULL AND b",
        "CASE k WHEN 1 THEN b END",
    ],
)
@pytest.mark.parametrize("end", ["", " GROUP BY k"])
def test_what_is_not_true_is_left_out(judged: Judged, condition: str, end: str) -> None:
    key = "k, " if end else ""
    judged.check(
        f"SELECT {key}sum(v) FILTER (WHERE {condition}) AS s, count(*) FILTER (WHERE {condition}) AS c "
        f"FROM t{end}"
    )


@pytest.mark.parametrize("condition", ["1", "v", "'true'", "k + 1"])
def test_what_is_no_truth_value_becomes_one(judged: Judged, condition: str) -> None:
    judged.check(f"SELECT sum(v) FILTER (WHERE {condition}) AS s FROM t")
