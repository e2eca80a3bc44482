"""What clients are told of statements that DataFusion refuses for what they say."""

import re
from pathlib import Path

import pytest
from datafusion import SessionContext

from lance_gateway.memwal.errors import InvalidInputError, is_panic
from lance_gateway.planner.bridge.run_control import describe_panics
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.plans.errors import (
    NotAggregatedError,
    is_unimplemented,
    misses_columns,
    translate_error,
)
from lance_gateway.planner.tables.state.catalog import Catalog
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
        ("SELECT cuont(*) FROM orders", "Invalid function 'cuont'. Did you mean 'count'?"),
        (
            "SELECT item, count(*) FROM orders",
            'Column "orders.item" must be in GROUP BY, or in an aggregate function such as min()',
        ),
        ("SELECT item FORM orders", "Syntax error: did you mean FROM? (line 1, column 13)"),
        ("SELECT item FROM orders WHER item = ''", "Syntax error: did you mean WHERE? (line 1, column 25)"),
    ],
)
def test_a_function_says_what_it_takes(sql: str, message: str) -> None:
    told = refusal(sql)
    assert told.startswith(message)
    assert "nternal error" not in told
    assert "bug" not in told
    assert "Error during planning" not in told


@pytest.mark.parametrize(
    ("sql", "misses"),
    [
        ("SELECT id FROM t WHERE id = (SELECT max(u.id) FROM t u WHERE u.id = ({}))", True),
        ("SELECT id FROM t WHERE id = (SELECT id FROM missing)", False),
    ],
)
def test_columns_out_of_reach_are_told_from_other_failures(sql: str, misses: bool) -> None:
    context = SessionContext()
    context.register_record_batches("t", [ORDERS.to_batches()])
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the bindings raise
        context.sql(sql.format("SELECT max(v.id) FROM t v WHERE v.item = t.item AND v.id = u.id")).collect()
    assert misses_columns(caught.value) is misses


def test_what_datafusion_does_not_plan_is_told_from_other_failures() -> None:
    context = SessionContext()
    context.register_record_batches("orders", [ORDERS.to_batches()])
    several = "SELECT (SELECT o.id FROM orders o WHERE o.item = orders.item) FROM orders"
    for sql, unimplemented in ((several, False), ("SELECT TOP 1 id FROM orders", True)):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the bindings raise
            context.sql(sql).collect()
        assert is_unimplemented(caught.value) is unimplemented
        is_aggregated = not isinstance(translate_error(caught.value, bound(sql), None), NotAggregatedError)
        assert is_aggregated is unimplemented


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT id FROM orders WHERE", "Expected: an expression, found: EOF (line 1, column 28"),
        ("SELECT 1\nWHERE 1 = = 1", "Expected: an expression, found: = (line 2, column 11"),
        ("SELECT id FROM orders WHERE item = 'a' 'b\"c'", "Expected: end of statement, found: 'b\"c' (line"),
    ],
)
def test_a_syntax_error_has_a_place(sql: str, message: str) -> None:
    assert refusal(sql).startswith(f"Syntax error: {message}")


@pytest.mark.parametrize(
    ("sql", "way"),
    [
        ("CAST(CAST('NaN' AS DOUBLE) * id AS DECIMAL(5, 1))", "TRY_CAST gives NULL"),
        ("CAST(CAST('inf' AS DOUBLE) * id AS INT)", "TRY_CAST gives NULL"),
        ("CAST(1e30 AS DECIMAL(38, 2)) * CAST(1e18 AS DECIMAL(38, 2)) * id", r"CAST\(x AS DOUBLE\)"),
    ],
)
def test_a_number_that_a_type_does_not_hold_has_a_way_out(sql: str, way: str) -> None:
    assert re.search(way, refusal(f"SELECT {sql} FROM orders"))


def test_a_pattern_that_is_computed_is_the_statements_fault() -> None:
    assert "unopened group" in refusal("SELECT 'a' ~ concat('a', ')') FROM orders")
    assert "did not compile: CompiledTooBig" in refusal(
        "SELECT item ~ concat('(a{1000}){1000}', item) FROM orders"
    )


@pytest.mark.parametrize(
    ("sql", "function"),
    [
        # More than there can be: less would be allocated, which the process may not survive.
        (f"SELECT array_repeat(1, n) FROM (VALUES ({2**63 - 1})) AS t(n)", "array_repeat"),
        (f"SELECT list_resize([1], n) FROM (VALUES ({2**63 - 1})) AS t(n)", "array_resize"),
        (
            f"SELECT array_resize(a, n) FROM (VALUES ([NULL], {2**63 - 1}), ([], 1)) AS t(a, n)",
            "array_resize",
        ),
        ("SELECT array_repeat(1, CAST(concat('92233720368', '54775807') AS BIGINT))", "array_repeat"),
        ("SELECT string_agg(repeat('x', 1000000), '') FROM generate_series(1, 2500)", "string_agg"),
    ],
)
def test_a_value_larger_than_any_is_the_statements_fault(tmp_path: Path, sql: str, function: str) -> None:
    engine = QueryEngine(Catalog.open(str(tmp_path)))
    with pytest.raises(
        InvalidInputError, match=f"^the function '{function}' (or .*)?was asked for a value larger"
    ):
        engine.execute(sql).read_all()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT array_normalize([[1], [NULL]])", r"does not take values of type List\(Float64\)$"),
        (
            "SELECT max(a) FROM (VALUES ([[1]]), ([[2]])) AS t(a)",
            "^max and min take no values of this nested",
        ),
        ("SELECT array_resize([], -1)", "^array_resize takes sizes from 0 on"),
        (
            "SELECT list_resize(a, n) FROM (VALUES ([1], -5)) AS t(a, n)",
            "^array_resize takes sizes from 0 on",
        ),
    ],
)
def test_values_of_a_type_that_a_function_does_not_take(tmp_path: Path, sql: str, message: str) -> None:
    engine = QueryEngine(Catalog.open(str(tmp_path)))
    with pytest.raises(InvalidInputError, match=message):
        engine.execute(sql).read_all()


def panic(text: str) -> BaseException:
    return type("PanicException", (BaseException,), {})(text)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT array_repeat(1, n) FROM t", "index out of bounds: the len is 0 but the index is 0"),
        ("SELECT n FROM t", "capacity overflow"),
        ("SELECT array_repeat(1, n) FROM t", "called `Option::unwrap()` on a `None` value"),
    ],
)
def test_other_panics_are_nobodys_fault(sql: str, text: str) -> None:
    with pytest.raises(BaseException, match=re.escape(text)) as caught, describe_panics(sql):
        raise panic(text)
    assert is_panic(caught.value)


def test_errors_that_are_no_panics_pass() -> None:
    with pytest.raises(KeyboardInterrupt), describe_panics("SELECT array_repeat(1, 2)"):
        raise KeyboardInterrupt("capacity overflow")


@pytest.mark.parametrize(
    ("sql", "way_out"),
    [
        ("SELECT + item FROM orders", "leave the sign out, or cast what is behind it"),
        ("SELECT id * INTERVAL '1 day' FROM orders", "as in CAST(n * 3 || ' days' AS INTERVAL)"),
        ("SELECT now() + now() FROM orders", "at + CAST(? || ' days' AS INTERVAL)"),
        ("SELECT id FROM orders WHERE item", "CAST(? AS BOOLEAN), or compare it"),
    ],
)
def test_what_is_not_computed_is_refused_with_the_way_out(sql: str, way_out: str) -> None:
    assert way_out in refusal(sql)


@pytest.mark.parametrize("call", ["round()", "to_char()", "date_part()", "lpad()"])
def test_a_function_without_arguments_is_refused_by_its_name(tmp_path: Path, call: str) -> None:
    engine = QueryEngine(Catalog.open(str(tmp_path)))
    with pytest.raises(InvalidInputError, match=call.removesuffix("()")):
        engine.prepare_statement(f"SELECT {call} FROM (VALUES (1)) AS t(id) WHERE id = ?")
    engine.close()
