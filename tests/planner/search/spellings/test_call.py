"""Calls of search functions are read from a statement: what stands where, and what is refused."""

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TableName
from lance_gateway.planner.binding.bind import bind
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.binding.names import TableColumns
from lance_gateway.planner.search.search_call import Parameter, SearchFunction


class Names:
    """One table, `items`, and a view on it, `best`."""

    def find(self, name: TableName) -> TableColumns | None:
        columns = pa.schema([("id", pa.int64()), ("body", pa.string())])
        return TableColumns(columns, ("id",)) if name == "items" else None

    def view_path(self, name: TableName) -> str:
        return name.schema

    def view_sql(self, name: TableName) -> str | None:
        return "SELECT id FROM lance_fts('items', 'body', 'fox')" if name == "best" else None

    def names(self, schema: str | None = None) -> tuple[TableName, ...]:
        return (TableName("best"), TableName("items")) if schema in {None, MAIN_SCHEMA} else ()

    def has_schema(self, schema: str) -> bool:
        return schema == MAIN_SCHEMA

    def system_tables(self) -> tuple[str, ...]:
        return ("queries",)


def bound(sql: str) -> BoundStatement:
    return bind(sql, Names())


def test_a_call_becomes_a_table_of_its_own() -> None:
    statement = bound(
        "SELECT s.id FROM lance_vector_search('items', 'vec', [1, -2.5], k => 3, prefilter => false) AS s"
    )
    assert statement.text == 'SELECT s.id FROM "items#1" AS s'
    (reference,) = statement.references
    assert reference.table == "items"
    assert reference.search is not None
    assert reference.search.function is SearchFunction.VECTOR
    assert reference.search.arguments == {"column": "vec", "query": (1, -2.5), "k": 3, "prefilter": False}


def test_without_an_alias_the_rows_go_by_the_name_of_the_function() -> None:
    statement = bound("SELECT lance_fts._score FROM lance_fts('items', 'body', 'fox')")
    assert statement.text == 'SELECT lance_fts._score FROM "items#1" AS "lance_fts"'


@pytest.mark.parametrize(
    "assignment", ["k => 3", "k := 3", "k = 3", "K=>3", "k => +3", "k => (3)", "k => 3::INT"]
)
def test_options_are_named_in_three_ways(assignment: str) -> None:
    (reference,) = bound(f"SELECT * FROM lance_fts('items', 'body', 'fox', {assignment})").references
    assert reference.search is not None
    assert reference.search.arguments["k"] == 3


@pytest.mark.parametrize(
    "vector",
    [
        "[0.5, 2]",
        "ARRAY[0.5, 2]",
        "[0.5, 2]::FLOAT[2]",
        "[0.5, 2]::DOUBLE PRECISION[]",
        "([0.5, 2.])",
        "[5e-1, +2]",
        "[.5, 2]",
    ],
)
def test_vectors_are_written_as_lists(vector: str) -> None:
    (reference,) = bound(f"SELECT * FROM lance_vector_search('items', 'vec', {vector})").references
    assert reference.search is not None
    assert reference.search.arguments["query"] == (0.5, 2)


def test_several_vectors_are_a_list_of_lists() -> None:
    (reference,) = bound("SELECT * FROM lance_vector_search('items', 'vec', [[1, 2], [3, 4]])").references
    assert reference.search is not None
    assert reference.search.arguments["query"] == ((1, 2), (3, 4))


def test_parameters_keep_their_numbers() -> None:
    statement = bound(
        "SELECT * FROM lance_vector_search('items', 'vec', $2, k => $3) WHERE id > $1 AND id < $3"
    )
    assert statement.parameter_count == 3
    assert statement.text == ('SELECT * FROM "items#1" AS "lance_vector_search" WHERE id > $1 AND id < $3')
    (reference,) = statement.references
    assert reference.search is not None
    assert reference.search.arguments["query"] == Parameter(1)
    assert reference.search.parameter_types == {1: pa.list_(pa.float64()), 2: pa.int64()}
    assert reference.search.with_values([7, [1.0], 5]) == {"column": "vec", "query": [1.0], "k": 5}


def test_parameters_may_stand_in_a_list() -> None:
    (reference,) = bound("SELECT * FROM lance_vector_search('items', 'vec', [?, 0, ?])").references
    assert reference.search is not None
    assert reference.search.with_values([1.5, 2.5])["query"] == (1.5, 0, 2.5)
    assert reference.search.parameter_types == {0: pa.float64(), 1: pa.float64()}


@pytest.mark.parametrize("name", ["items", "main.items", "lance.main.items"])
def test_tables_are_named_as_in_from(name: str) -> None:
    (reference,) = bound(f"SELECT * FROM lance_fts('{name}', 'body', 'fox')").references
    assert reference.search is not None
    assert reference.search.table == "items"


def test_a_view_may_search() -> None:
    (reference,) = bound("SELECT * FROM best").references
    assert reference.search is not None
    assert reference.search.arguments == {"column": "body", "query": "fox"}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("lance_fts('item', 'body', 'x')", NotFoundError, "Table 'item' does not exist"),
        ("lance_fts('a.b.c.items', 'body', 'x')", InvalidInputError, "at most three parts"),
        ("lance_fts('best', 'body', 'x')", InvalidInputError, "views have no indexes"),
        ("lance_fts('system.queries', 'body', 'x')", InvalidInputError, "searches tables"),
        ("lance_fts(items, 'body', 'x')", InvalidInputError, "A constant"),
        ("lance_fts(7, 'body', 'x')", InvalidInputError, "named by a string"),
        ("lance_fts()", InvalidInputError, "lance_fts needs table"),
        ("lance_fts('items', 'body')", InvalidInputError, "lance_fts needs query"),
        ("lance_fts('items', 'body', 'x', 'y')", InvalidInputError, "takes 3 arguments without a name"),
        ("lance_fts('items', 'body', 'x', kk => 3)", InvalidInputError, "did you mean k?"),
        ("lance_fts('items', 'body', 'x', metric => 'l2')", InvalidInputError, "has no option 'metric'"),
        ("lance_fts('items', 'body', 'x', k => 1, k => 2)", InvalidInputError, "k is given twice"),
        ("lance_fts('items', 'body', column => 'x')", InvalidInputError, "column is given twice"),
        ("lance_fts('items', 'body', k => 1, 'x')", InvalidInputError, "named arguments come last"),
        (
            "lance_fts('items', 'body', 'x', k => 1 + 1)",
            InvalidInputError,
            "must be a constant or a parameter",
        ),
        ("lance_fts('items', 'body', 'x', k => id)", InvalidInputError, "A constant"),
        ("lance_vector_search('items', 'vec', [1; 2])", InvalidInputError, "line 1"),
    ],
)
def test_what_is_no_call_is_refused(call: str, error: type[LanceGatewayError], message: str) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        bound(f"SELECT * FROM {call}")
