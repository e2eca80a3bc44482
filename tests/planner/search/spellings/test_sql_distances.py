"""Distance functions and operators in SQL: what they compute, what they accept, and how they are read."""

from collections.abc import Iterator

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.binding.bind import bind
from lance_gateway.planner.bridge.distance_functions import DISTANCES
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.sql.value_texts import read_vector
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.names import Names
from tests.planner.titled import Case, read_titled

ONE, OTHER = [1.0, -2.0, 0.5], [3.0, 1.0, 2.5]
EXPECTED = {
    "l2_distance": np.sqrt(4 + 9 + 4),
    "l1_distance": 7.0,
    "cosine_distance": 1 - 2.25 / np.sqrt(5.25 * 16.25),
    "cosine_similarity": 2.25 / np.sqrt(5.25 * 16.25),
    "inner_product": 2.25,
    "negative_inner_product": -2.25,
}
TYPES = ["List(Float32)", "List(Float64)", "FixedSizeList(3 x Float32)", "LargeList(Float16)"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root = tmp_path_factory.mktemp("distances")
    vectors = pa.array([ONE, OTHER, None, [0.0, 0.0, 0.0]], pa.list_(pa.float32(), 3))
    halves = vectors.cast(pa.list_(pa.float16(), 3))
    bits = pa.array([[255, 0], [1, 2], None, [0, 0]], pa.list_(pa.uint8(), 2))
    table = pa.table({"id": range(4), "vec": vectors, "half": halves, "bits": bits, "n": [1, None, 3, 1]})
    lance.write_dataset(table, root / "items.lance")
    engine = QueryEngine(Catalog.open(str(root)), partitions=1)
    yield engine
    engine.close()


def column(engine: QueryEngine, sql: str, *parameters: pa.Scalar) -> list[object]:
    values: list[object] = engine.execute(sql, parameters=parameters).read_all().column(0).to_pylist()
    return values


def value(engine: QueryEngine, expression: str, *parameters: pa.Scalar) -> object:
    (found,) = column(engine, f"SELECT {expression}", *parameters)
    return found


@pytest.mark.parametrize("name", sorted(name for name, one in DISTANCES.items() if one.value in EXPECTED))
def test_functions_compute_what_their_names_say(engine: QueryEngine, name: str):
    expected = EXPECTED[DISTANCES[name].value]
    assert value(engine, f"{name}({ONE}, {OTHER})") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", TYPES)
def test_lists_of_any_numbers_are_vectors(engine: QueryEngine, kind: str):
    found = value(engine, f"l2_distance(arrow_cast({ONE}, '{kind}'), [3, 1, 2.5])")
    assert found == pytest.approx(EXPECTED["l2_distance"])


def test_hamming_counts_bits(engine: QueryEngine):
    assert column(engine, "SELECT hamming_distance(bits, [3, 0]) FROM items ORDER BY id") == [6, 2, None, 2]


def test_columns_of_floats_of_any_width(engine: QueryEngine):
    sql = "SELECT max(abs((half <-> [1, 2, 3]) - (vec <-> [1, 2, 3]))) FROM items"
    assert column(engine, sql) == [0.0]


@pytest.mark.parametrize(
    "expression",
    ["l2_distance(NULL, [1])", "[1, NULL] <-> [1, 2]", "[0, 0] <=> [1, 2]", "cosine_similarity([1], [0])"],
)
def test_what_is_not_known_is_null(engine: QueryEngine, expression: str):
    assert value(engine, expression) is None


def test_rows_without_a_vector_have_no_distance(engine: QueryEngine):
    assert column(engine, f"SELECT vec <=> {OTHER} FROM items ORDER BY id")[2:] == [None, None]


@pytest.mark.parametrize(
    "expression", ["[1, 2] <-> [1, 2, 3]", "l2_distance(vec, '[1, 2]')", "vec <#> [1, 2]"]
)
def test_vectors_of_two_dimensions_have_no_distance(engine: QueryEngine, expression: str):
    with pytest.raises(InvalidInputError, match=r"a vector of \d numbers and one of \d have no distance"):
        column(engine, f"SELECT {expression} FROM items")


def test_distances_stand_anywhere(engine: QueryEngine):
    sql = """
        SELECT n, min(vec <-> $1) AS nearest FROM items
        WHERE vec <-> $1 < 5 AND inner_product(vec, vec) >= 0
        GROUP BY n HAVING max(vec <-> $1) > 0 ORDER BY nearest
    """
    found = engine.execute(sql, parameters=[pa.scalar(ONE)]).read_all().to_pylist()
    assert found == [
        {"n": 1, "nearest": 0.0},
        {"n": None, "nearest": pytest.approx(EXPECTED["l2_distance"])},
    ]


def test_distances_between_rows(engine: QueryEngine):
    sql = "SELECT a.vec <-> b.vec FROM items a JOIN items b ON a.id + 1 = b.id WHERE a.id = 0"
    assert column(engine, sql) == [pytest.approx(EXPECTED["l2_distance"])]


@pytest.mark.parametrize(
    "bound",
    [
        pa.scalar(ONE),
        pa.scalar(ONE, pa.list_(pa.float32(), 3)),
        pa.scalar(ONE, pa.large_list(pa.float16())),
        pa.scalar("[1, -2, 5e-1]"),
    ],
    ids=lambda one: str(one.type),
)
@pytest.mark.parametrize("placed", ["vec <-> ?", "? <-> vec", "l2_distance(vec, ?)", "?::vector <-> vec"])
def test_vectors_are_bound_as_lists_and_as_text(engine: QueryEngine, placed: str, bound: pa.Scalar):
    assert column(engine, f"SELECT {placed} FROM items WHERE id = 0", bound) == [0.0]


def test_other_text_is_no_vector(engine: QueryEngine):
    with pytest.raises(InvalidInputError, match="parameter \\$1 is 'near'"):
        column(engine, "SELECT vec <-> $1 FROM items", pa.scalar("near"))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[1, 2.5, -3e-2]", [1.0, 2.5, -0.03]),
        (" [0] ", [0.0]),
        ("[]", []),
        ("[1, NaN]", None),
        ("[true]", None),
        ("[[1]]", None),
        ("{1, 2}", None),
        ("[1", None),
        ("[1e999]", None),
    ],
)
def test_vectors_as_text(text: str, numbers: list[float] | None):
    assert read_vector(text) == numbers


@pytest.mark.parametrize("case", read_titled("distance_operators.sql"), ids=str)
def test_operators_become_calls(case: Case):
    given, expected = case.parts
    names = Names(
        {"items": pa.table({"id": [1], "vec": pa.array([[1.0]]), "other": pa.array([[1.0]]), "n": [1]})}
    )
    assert bind(given, names).text == expected


LONG = [float(one) for one in np.random.default_rng(8).normal(size=200)]


@pytest.mark.parametrize("vector", [f"'{LONG}'", f"{LONG}", f"ARRAY{LONG}", f"'{LONG}'::vector(200)"])
def test_long_vectors_do_not_stand_in_the_text(engine: QueryEngine, vector: str):
    sql = f"SELECT {vector} <-> vec, l2_distance(vec, {vector}) FROM items"
    names = Names({"items": pa.table({"vec": pa.array([LONG])})})
    statement = bind(sql, names)
    assert statement.text == (
        "SELECT l2_distance(CAST($vector_1 AS DOUBLE[]), vec), "
        'l2_distance(vec, CAST($vector_2 AS DOUBLE[])) FROM "items#1" AS "items"'
    )
    assert statement.vectors == (tuple(LONG), tuple(LONG))
    query = engine.prepare(f"SELECT l2_distance({vector}, $1), {vector} <=> $1")
    assert query.execute([pa.scalar(LONG)]).read_all().to_pylist() == [
        {name: pytest.approx(0, abs=1e-12) for name in query.schema.names}
    ]
    assert max(map(len, query.schema.names)) < 100


@pytest.mark.parametrize(
    "expression",
    [
        "1 - vec <-> [1]",
        "vec <-> [1] * 2",
        "-vec <-> [1]",
        "vec <-> -1",
        "vec <-> vec <-> vec",
        "CASE WHEN true THEN vec END <-> [1]",
    ],
)
def test_operands_that_are_not_plain_need_parentheses(engine: QueryEngine, expression: str):
    with pytest.raises(InvalidInputError, match=r"put parentheses around .*line 1"):
        engine.prepare(f"SELECT {expression} FROM items")


@pytest.mark.parametrize("expression", ["<-> vec", "vec <->"])
def test_an_operator_has_two_operands(engine: QueryEngine, expression: str):
    with pytest.raises(InvalidInputError, match=r"Syntax error: .*line 1"):
        engine.prepare(f"SELECT {expression} FROM items")


def test_text_beside_an_operator_must_be_a_vector(engine: QueryEngine):
    with pytest.raises(InvalidInputError, match=r"A vector such as .* \(line 1, column 16"):
        engine.prepare("SELECT vec <-> 'near' FROM items")


def test_the_null_safe_comparison_stays_what_it_is(engine: QueryEngine):
    assert column(engine, "SELECT id FROM items WHERE n <=> NULL OR n <=> 3 ORDER BY id") == [1, 2]


DUCKDB = [
    "array_distance([1, 2]::DOUBLE[2], [4, 6]::DOUBLE[2])",
    "list_distance([1, 2]::DOUBLE[], [4, 6]::DOUBLE[])",
    "[1, 2]::DOUBLE[] <-> [4, 6]::DOUBLE[]",
    "[1, 0]::DOUBLE[] <=> [0, 1]::DOUBLE[]",
    "list_cosine_distance([3, 0]::DOUBLE[], [4, 3]::DOUBLE[])",
    "array_cosine_similarity([3, 0]::DOUBLE[2], [4, 3]::DOUBLE[2])",
    "list_inner_product([1, 2]::DOUBLE[], [3, 4]::DOUBLE[])",
    "array_dot_product([1, 2]::DOUBLE[2], [3, 4]::DOUBLE[2])",
    "list_negative_dot_product([1, 2]::DOUBLE[], [3, 4]::DOUBLE[])",
    "array_negative_inner_product([1, 2]::DOUBLE[2], [3, 4]::DOUBLE[2])",
]


@pytest.mark.parametrize("expression", DUCKDB)
def test_duckdb_has_the_same_functions(engine: QueryEngine, expression: str):
    ((expected,),) = duckdb.sql(f"SELECT {expression}").fetchall()
    for dialect in ("duckdb", "postgres"):
        query = engine.prepare(f"SELECT {expression}", SessionSettings(dialect=dialect))
        assert query.execute().read_all().column(0).to_pylist() == [pytest.approx(expected)]


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "mysql", "snowflake", "bigquery", "trino"])
def test_every_dialect_passes_operators_and_functions(engine: QueryEngine, dialect: str):
    order = "l2_distance(vec, [1, -2, 1]) + (vec <-> '[1, -2, 1]')"
    sql = f"SELECT id FROM items WHERE id < 2 ORDER BY {order} LIMIT 1"
    found = engine.prepare(sql, SessionSettings(dialect=dialect)).execute().read_all()
    assert found.column(0).to_pylist() == [0]


@pytest.mark.parametrize(
    ("dialect", "expression", "expected"),
    [
        ("duckdb", "[3.0] <=> [3.0]", 0.0),
        ("duckdb", "([3.0] <=> [3.0]) + 1 = 1 AND 2 IS NOT DISTINCT FROM 2", True),
        ("duckdb", "[3.0] IS NOT DISTINCT FROM [3.0] AND '<=>' <> 'IS DISTINCT FROM'", True),
        ("duckdb", "([3.0] <=> [3.0] /* IS DISTINCT FROM */)", 0.0),
        ("spark", "array(3.0) IS NOT DISTINCT FROM array(3.0) AND '<=>' <> ''", True),
        ("spark", "array(3.0) IS NOT /* <=> */ DISTINCT FROM array(3.0)", True),
        ("spark", "(array(3.0) <=> array(3.0)) + 1 = 1 AND array(3.0) IS NOT DISTINCT FROM array(3.0)", True),
        ("mysql", "'[draft] x' <=> '[draft] x'", True),
        ("mysql", "'ARRAY[1]' <=> 'ARRAY[1]'", True),
        ("postgres", "'[draft] x' <=> '[draft] x'", True),
    ],
)
def test_null_safe_equality_and_distance_are_told_apart(
    engine: QueryEngine, dialect: str, expression: str, expected: object
):
    query = engine.prepare(f"SELECT {expression} AS x", SessionSettings(dialect=dialect))
    assert query.execute().read_all()["x"].to_pylist() == [expected]


def test_a_statement_may_end_anywhere(engine: QueryEngine):
    for end in ("<->", "::", "::vector", "::vector(", "(", "$", "["):
        with pytest.raises(InvalidInputError):
            engine.prepare(f"SELECT 1 FROM items WHERE vec <-> vec < 1 AND vec <-> other {end}")
