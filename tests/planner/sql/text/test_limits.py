"""Statements whose plan would be too deep are refused before DataFusion sees them; others are not."""

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.sql.text.limits import MAX_DEPTH, SHALLOW_WORDS, check_depth
from lance_gateway.planner.sql.text.tokens import tokenize
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.names import bound

MANY = 4_000
TOO_DEEP = {
    "sums": "SELECT " + "+".join(["1"] * MANY),
    "disjunctions": "SELECT * FROM orders WHERE " + " OR ".join(f"id = {n}" for n in range(MANY)),
    "conjunctions": "SELECT * FROM orders WHERE " + " AND ".join(f"id <> {n}" for n in range(MANY)),
    "joined text": "SELECT " + "||".join(["'a'"] * MANY),
    "casts": "SELECT 1" + "::int" * MANY,
    "subscripts": "SELECT [1]" + "[1]" * MANY,
    "conditions on conditions": "SELECT 1" + " IS NULL" * MANY,
    "unions": " UNION ALL ".join(["SELECT 1"] * MANY),
    "differences": " EXCEPT ".join(["SELECT 1"] * MANY),
    "joins": "SELECT 1 FROM orders" + " JOIN orders USING (id)" * MANY,
    "tables": "SELECT 1 FROM " + ", ".join(["orders"] * MANY),
    "CTEs": "WITH a0 AS (SELECT 1), "
    + ", ".join(f"a{n} AS (SELECT * FROM a{n - 1})" for n in range(1, MANY))
    + " SELECT 1",
    "CTEs with sums": "WITH a0 AS (SELECT 1 AS a), "
    + ", ".join(f"a{n} AS (SELECT {'a+' * 100}1 AS a FROM a{n - 1})" for n in range(1, 20))
    + " SELECT a FROM a19",
    "sums in brackets": "SELECT " + "(" * 9 + "1" + f"{'+1' * 200})" * 9,
    "cases": "SELECT " + "CASE WHEN 1 THEN " * MANY + "1" + " END" * MANY,
    "pipes": "FROM orders" + " |> WHERE true" * MANY,
}


@pytest.mark.slow
@pytest.mark.parametrize("sql", TOO_DEEP.values(), ids=TOO_DEEP)
def test_a_statement_that_would_overflow_the_stack_is_refused(sql: str):
    with pytest.raises(InvalidInputError, match=r"more than (2000 deep|the 1000 that are allowed)"):
        bound(sql)


def test_ctes_that_multiply_are_refused():
    doubling = "".join(f", a{n} AS (SELECT 1 FROM a{n - 1} x, a{n - 1} y)" for n in range(1, 30))
    with pytest.raises(InvalidInputError, match="more than the 1000 that are allowed"):
        bound(f"WITH a0 AS (SELECT 1){doubling} SELECT * FROM a29")


WIDE = {
    "long lists": "SELECT * FROM orders WHERE id IN (" + ", ".join(map(str, range(MANY))) + ")",
    "rows": "VALUES " + ", ".join(f"({n} + 1, -{n})" for n in range(MANY)),
    "columns": "SELECT " + ", ".join(f"id + {n} AS c{n}" for n in range(MANY)) + " FROM orders",
    "branches": "SELECT CASE "
    + " ".join(f"WHEN id = {n} THEN {n}" for n in range(MANY))
    + " END FROM orders",
    "arguments": "SELECT " + " , ".join("abs(1 - 2) * (3 + 4)" for _ in range(MANY)),
    "some of each": "WITH a AS (SELECT 1 + 1), b AS (SELECT 1) SELECT 1 FROM a JOIN b USING (x) UNION "
    "SELECT t.end FROM t WHERE x = 1 AND y IN (1, 2) OR CASE WHEN a.case THEN 1 ELSE 2 END = 2",
}


@pytest.mark.slow
@pytest.mark.parametrize("sql", WIDE.values(), ids=WIDE)
def test_statements_may_be_wide(sql: str):
    check_depth(tokenize(sql))


@pytest.mark.slow
def test_as_many_as_are_allowed():
    sums = MAX_DEPTH // 2
    check_depth(tokenize("SELECT " + "+".join(["1"] * sums)))
    with pytest.raises(InvalidInputError, match="line 1, column 2009"):
        check_depth(tokenize("SELECT " + "+".join(["1"] * (sums + 2))))
    alternatives = " OR ".join(["(id + 1 = 2)"] * (MAX_DEPTH - 10))
    check_depth(tokenize(f"SELECT * FROM orders WHERE {alternatives}"))


@pytest.mark.parametrize(
    "unit", ["UNION", "FROM ,", "+", "[", "[ ]", "NOT", "AS ( )", "AS ( UNION )", "CASE END", "( + )", "AND"]
)
def test_a_text_of_few_words_is_never_too_deep(unit: str) -> None:
    times = (SHALLOW_WORDS - 1) // len(unit.split())
    check_depth(tokenize(" ".join([unit] * times)))


def test_a_text_of_a_few_more_words_may_be_too_deep() -> None:
    with pytest.raises(InvalidInputError, match="deep"):
        check_depth(tokenize(" ".join(["UNION"] * (SHALLOW_WORDS + 2))))


REPEATED = "repeat('x', CAST($1 AS BIGINT))"
DEEP = "List(" * 8000 + "Int64" + ")" * 8000
ENORMOUS = {
    "a sketch": "SELECT approx_percentile_cont(1, 0.5, 70368744177664)",
    "a sketch in an order": "SELECT approx_percentile_cont(0.5, 70368744177664) WITHIN GROUP (ORDER BY 1)",
    "a sketch with weights": "SELECT approx_percentile_cont_with_weight(id, 1, 0.5, 70368744177664) FROM t",
    "a computed sketch": "SELECT approx_percentile_cont(1, 0.5, 9999 * 9999 * 9999)",
    "a sketch by a subquery": "SELECT approx_percentile_cont(1, 0.5, (SELECT 70368744177664))",
    "a wide type": "SELECT arrow_cast(NULL, 'FixedSizeList(2147483647, Int64)')",
    "wide bytes": "SELECT CAST(NULL AS BINARY(2147483647)) UNION ALL SELECT NULL",
    "a deep type": f"SELECT arrow_cast(1, '{DEEP}')",
    "a deep type, tried": f"SELECT arrow_try_cast(1, '{DEEP}')",
    "a deep type in a condition": f"SELECT id FROM t WHERE arrow_cast(id, '{DEEP}') IS NULL",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root: Path = tmp_path_factory.mktemp("limits")
    lance.write_dataset(pa.table({"id": [1, 2]}), root / "t.lance")
    engine = QueryEngine(Catalog.open(str(root)))
    yield engine
    engine.close()


@pytest.mark.parametrize("sql", ENORMOUS.values(), ids=ENORMOUS)
def test_what_would_end_the_process_is_refused(engine: QueryEngine, sql: str):
    with pytest.raises(
        InvalidInputError, match=r"at most (10000 centroids|64 levels|1000000 bytes)|as numbers"
    ):
        engine.execute(sql)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT length(repeat('x', CAST($1 AS BIGINT)))", 2_000_000_000),
        ("SELECT array_length(array_repeat(1, CAST($1 AS BIGINT)))", 70368744177664),
        ("SELECT arrow_cast(1, $1)", DEEP),
    ],
)
def test_so_is_a_parameter(engine: QueryEngine, sql: str, value: object):
    with pytest.raises(InvalidInputError, match=r"parameter \$1 is larger than|literal|constant string"):
        engine.prepare(sql).execute([pa.scalar(value)]).read_all()


def test_smaller_ones_are_answered(engine: QueryEngine):
    answers = {
        "SELECT approx_percentile_cont(id, 0.5, 100) FROM t": 1.5,
        "SELECT approx_percentile_cont(0.5, 100) WITHIN GROUP (ORDER BY id) FROM t": 1.5,
        "SELECT arrow_cast(1, 'Int8')": 1,
        "SELECT arrow_cast([1], 'List(Int8)')[1]": 1,
        "SELECT arrow_cast('123456789', 'Int64')": 123456789,
        "SELECT CAST(TIMESTAMP WITH TIME ZONE '2026-02-28 23:59:58.123456789+00' AS VARCHAR)": (
            "2026-02-28T23:59:58.123456789Z"
        ),
    }
    for sql, expected in answers.items():
        assert engine.execute(sql).read_all().column(0).to_pylist() == [expected], sql
    (cast,) = engine.prepare("SELECT arrow_cast($1, 'Int64')").execute([pa.scalar("123456789")]).read_all()[0]
    assert cast.as_py() == 123456789
    (length,) = engine.prepare(f"SELECT length({REPEATED})").execute([pa.scalar(9)]).read_all()[0]
    assert length.as_py() == 9
