"""Expressions that follow from their row alone, and those that do not."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from datafusion import Expr, SessionContext, col, udf

from lance_gateway.memwal.transforms.determinism import (
    find_unstable_parts,
    has_unstable_call,
    is_deterministic,
    list_deterministic_functions,
)

_ROW = pa.record_batch({"n": [1], "s": ["x"], "l": [[1]], "rand": [2]})


def _parsed(text: str) -> Expr:
    return SessionContext().create_dataframe([[_ROW]], name="t").parse_sql_expr(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("rand()", ("random",)),
        ("random()", ("random",)),
        ("CAST(RAND() * 8 AS BIGINT)", ("random",)),
        ("TRY_CAST(rand() AS BIGINT)", ("random",)),
        ("uuid()", ("uuid",)),
        ("now()", ("now",)),
        ("current_timestamp", ("now",)),
        ("current_timestamp()", ("now",)),
        ("now() AT TIME ZONE 'UTC'", ("now",)),
        ("current_date", ("current_date",)),
        ("today()", ("current_date",)),
        ("current_time", ("current_time",)),
        ("EXTRACT(year FROM now())", ("now",)),
        ("CASE WHEN n > 1 THEN s ELSE uuid() END", ("uuid",)),
        ("CASE random() WHEN 1 THEN 2 END", ("random",)),
        ("n IN (1, rand())", ("random",)),
        ("n BETWEEN 1 AND rand()", ("random",)),
        ("NOT s LIKE uuid()", ("uuid",)),
        ("s SIMILAR TO uuid()", ("uuid",)),
        ("-rand() IS NOT NULL", ("random",)),
        ("coalesce(n, rand()) + date_part('year', now())", ("now", "random")),
        ("[n, rand()][1]", ("random",)),
        ("max(n)", ("an aggregate",)),
        ("sum(n) FILTER (WHERE n > 1) + 1", ("an aggregate",)),
        ("row_number() OVER (ORDER BY n)", ("a window function",)),
        ("(SELECT 1)", ("a subquery",)),
        ("n IN (SELECT 1)", ("a subquery",)),
        ("EXISTS (SELECT 1)", ("a subquery",)),
        ("unnest(l)", ("unnest",)),
        ("$1", ("a parameter",)),
    ],
)
def test_unstable_parts_are_named(text: str, parts: tuple[str, ...]) -> None:
    assert find_unstable_parts(_parsed(text)) == parts


@pytest.mark.parametrize(
    "text",
    [
        "n",
        "rand",
        "s = 'now()'",
        "s = 'random()' OR s IN ('SELECT', 'uuid()')",
        "lower(s) || '..' LIKE '%x' AND n BETWEEN 1 AND 2",
        "CASE n WHEN 1 THEN 'a' ELSE substr(s, 1) END",
        "l[1] + abs(n) % 8",
        "arrow_cast(n, 'Int8') IS NULL",
        "n IS TRUE IS NOT FALSE",
        "date_part('year', TIMESTAMP '2024-01-01')",
        "s ILIKE 'x' AND s ~ 'x'",
    ],
)
def test_expressions_over_the_row_are_deterministic(text: str) -> None:
    assert is_deterministic(_parsed(text))


def test_functions_that_datafusion_does_not_list_are_unstable_unless_registered() -> None:
    double = udf(lambda values: values, [pa.int64()], pa.int64(), "immutable", "mine")(col("n"))
    assert find_unstable_parts(double) == ("mine",)
    assert is_deterministic(double, frozenset({"mine"}))


def test_every_function_is_listed_by_all_of_its_names() -> None:
    assert {"lower", "date_part", "get_field", "make_array"} <= list_deterministic_functions()
    for name in (
        "rand",
        "random",
        "uuid",
        "now",
        "current_timestamp",
        "current_date",
        "today",
        "current_time",
    ):
        assert name not in list_deterministic_functions()
        assert has_unstable_call(["select", name.upper()])
    assert not has_unstable_call(["select", "lower", "from", "t"])


@pytest.mark.slow
def test_functions_have_listed_names_in_expressions() -> None:
    """Whatever alias calls a function, the expression has a name of it that DataFusion lists."""
    arguments = ("", "n", "n, n", "n, n, n", "s", "s, s", "l", "l, n")
    called = 0
    for name in sorted(list_deterministic_functions()):
        for given in arguments:
            try:
                expression = _parsed(f"{name}({given})")
            except Exception:  # noqa: BLE001 - other functions take these arguments
                continue
            called += 1
            assert set(find_unstable_parts(expression)) <= {"an aggregate", "a window function"}, name
    assert called > len(list_deterministic_functions())


INSIDE_OF_DATAFUSION = """
import pyarrow as pa
from datafusion import SessionContext, udf
from lance_gateway.memwal.transforms.expressions import evaluate_expression

def successor(column):
    return evaluate_expression("col0 + 1", [column], len(column))

context = SessionContext()
context.register_udf(udf(successor, [pa.int64()], pa.int64(), "volatile", name="successor"))
context.register_record_batches("t", [[pa.record_batch({"a": pa.array([1, 2], pa.int64())})]])
# Two parts, which DataFusion reads on its own threads.
print(context.sql("SELECT successor(a) AS b FROM t UNION ALL SELECT successor(a) FROM t").to_pydict())
"""


@pytest.mark.slow
def test_functions_are_told_while_all_threads_of_datafusion_wait_for_it() -> None:
    """As when the first statement of a process reads regions that an expression divides."""
    done = subprocess.run(
        [sys.executable, "-c", INSIDE_OF_DATAFUSION],
        env={**os.environ, "TOKIO_WORKER_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "{'b': [2, 3, 2, 3]}\n"
