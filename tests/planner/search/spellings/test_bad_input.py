"""What bad calls of search functions get: an error that names the thing, the value and the way out."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, UnsupportedError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

ITEMS = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("vec", pa.list_(pa.float32(), 3)),
        pa.field("bits", pa.list_(pa.uint8(), 2)),
        pa.field("loose", pa.list_(pa.float32())),
        pa.field("numbers", pa.list_(pa.int32(), 3)),
        pa.field("body", pa.string()),
        pa.field("title", pa.string()),
        pa.field("Mixed", pa.list_(pa.float32(), 3)),
    ]
)


def item(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "vec": [number, 1.0, 2.0],
        "bits": [number, 255],
        "loose": [1.0] * number,
        "numbers": [1, 2, 3],
        "body": f"the quick fox {number}",
        "title": "a title",
        "Mixed": [1.0, 0.0, number],
    }


def write_items(root: Path, writers: WriterProcess) -> None:
    """`items` with rows of all sorts, `plain` without key or MemWAL, `empty` without rows, and a view."""
    rows = pa.Table.from_pylist([item(number) for number in range(5)], schema=ITEMS)
    table = LsmTable.create(root, "items", rows, unpartitioned(("id",), 1), writers)
    dataset = table.dataset()
    dataset.create_scalar_index("body", "INVERTED", with_position=False)
    table.put([item(7)])
    bare = pa.table({"id": [1, 2], "vec": rows.column("vec")[:2], "body": ["a fox", "a hen"]})
    lance.write_dataset(bare, root / "plain.lance").create_scalar_index("body", "INVERTED")
    lance.write_dataset(bare.schema.empty_table(), root / "empty.lance")
    named = pa.table({"vec": rows.column("vec"), "_distance": np.arange(5)})
    lance.write_dataset(named, root / "named.lance")
    (root / "best.view.sql").write_text("SELECT * FROM items WHERE id < 3")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[QueryEngine]:
    root = tmp_path_factory.mktemp("bad_input")
    write_items(root, shared_writers)
    engine = QueryEngine(Catalog.open(str(root)))
    yield engine
    engine.close()


def refusal(engine: QueryEngine, sql: str, parameters: list[pa.Scalar] | None = None) -> LanceGatewayError:
    """What is said of a statement, which other statements survive."""
    with pytest.raises(LanceGatewayError) as caught:
        engine.prepare(sql).execute(parameters or []).read_all()
    assert "Traceback" not in str(caught.value)
    assert "#1" not in str(caught.value)
    assert engine.execute("SELECT count(*) FROM items").read_all().column(0).to_pylist() == [6]
    return caught.value


def check(error: LanceGatewayError, kind: type[LanceGatewayError], *parts: str) -> None:
    assert isinstance(error, kind), error
    for part in parts:
        assert part in str(error)


@pytest.mark.parametrize(
    ("arguments", "kind", "parts"),
    [
        ("", InvalidInputError, ["needs table", "lance_vector_search(table, column, query, k => 10, ...)"]),
        ("'items'", InvalidInputError, ["needs column"]),
        ("'items', 'vec'", InvalidInputError, ["needs query"]),
        ("'items', 'vec', [1, 2, 3], 5", InvalidInputError, ["takes 3 arguments", "k => 10"]),
        ("'items', k => 5, 'vec', [1, 2, 3]", InvalidInputError, ["named arguments come last"]),
        ("'items', 'vec', [1, 2, 3], k => 5, k => 6", InvalidInputError, ["k is given twice"]),
        ("'items', 'vec', [1, 2, 3], nprobs => 5, nprobes => 6", InvalidInputError, ["given twice"]),
        ("'items', 'vec', [1, 2, 3], nprobe => 5", InvalidInputError, ["'nprobe'", "did you mean nprobes"]),
        ("'items', 'vec', [1, 2, 3], limit => 5", InvalidInputError, ["'limit'", "it has k, prefilter"]),
        ("'items', 'vec', [1, 2, 3], alpha => 0.5", InvalidInputError, ["'alpha'"]),
        ("'absent', 'vec', [1, 2, 3]", NotFoundError, ["'absent' does not exist", "best, empty, items"]),
        ("'item', 'vec', [1, 2, 3]", NotFoundError, ["'item' does not exist", "did you mean 'items'"]),
        ("items, 'vec', [1, 2, 3]", InvalidInputError, ["constant"]),
        ("7, 'vec', [1, 2, 3]", InvalidInputError, ["string such as 'items'"]),
        ("NULL, 'vec', [1, 2, 3]", InvalidInputError, ["string such as 'items'"]),
        ("'best', 'vec', [1, 2, 3]", InvalidInputError, ["'best'", "view"]),
        ("'system.tables', 'vec', [1, 2, 3]", InvalidInputError, ["system.tables"]),
        ("'information_schema.tables', 'vec', [1, 2, 3]", InvalidInputError, ["information_schema.tables"]),
        ("'other.main.items', 'vec', [1, 2, 3]", NotFoundError, ["'other'"]),
        ("'items', 'absent', [1, 2, 3]", NotFoundError, ["'absent'", "id, vec, bits"]),
        ("'items', 'VEC', [1, 2, 3]", NotFoundError, ["'VEC'", "vec"]),
        ("'items', 'mixed', [1, 2, 3]", NotFoundError, ["'mixed'", "Mixed"]),
        ("'items', NULL, [1, 2, 3]", InvalidInputError, ["column", "None"]),
        ("'items', 3, [1, 2, 3]", InvalidInputError, ["column", "3"]),
        ("'items', 'id', [1, 2, 3]", InvalidInputError, ["'id'", "int64", "fixed-size"]),
        ("'items', 'title', [1, 2, 3]", InvalidInputError, ["'title'", "string"]),
        ("'items', 'loose', [1, 2, 3]", InvalidInputError, ["'loose'", "list<"]),
        ("'items', 'numbers', [1, 2, 3]", InvalidInputError, ["'numbers'"]),
        ("'items', 'vec', [1, 2]", InvalidInputError, ["2 numbers", "'vec'", "3"]),
        ("'items', 'vec', [1, 2, 3, 4]", InvalidInputError, ["4 numbers", "3"]),
        ("'items', 'vec', []", InvalidInputError, ["0 numbers", "3"]),
        ("'items', 'vec', [[1, 2, 3], [1, 2]]", InvalidInputError, ["2 numbers", "3"]),
        ("'items', 'vec', [[1, 2, 3], 4]", InvalidInputError, ["list of 3 numbers"]),
        ("'items', 'vec', [[]]", InvalidInputError, ["0 numbers"]),
        ("'items', 'vec', NULL", InvalidInputError, ["query", "list of 3 numbers"]),
        ("'items', 'vec', [1, NULL, 3]", InvalidInputError, ["finite numbers", "None"]),
        ("'items', 'vec', ['a', 'b', 'c']", InvalidInputError, ["numbers", "'a'"]),
        ("'items', 'vec', [true, false, true]", InvalidInputError, ["numbers", "True"]),
        ("'items', 'vec', 'fox'", InvalidInputError, ["query", "'fox'"]),
        ("'items', 'vec', '[1, NaN, 3]'", InvalidInputError, ["finite", "nan"]),
        ("'items', 'vec', '[1, Infinity, 3]'", InvalidInputError, ["finite", "inf"]),
        ("'items', 'vec', 7", InvalidInputError, ["list of 3 numbers", "7"]),
        ("'items', 'vec', [1e39, 0, 0]", InvalidInputError, ["float32", "1e+39"]),
        (f"'items', 'vec', [1{'0' * 400}, 0, 0]", InvalidInputError, ["finite", "many digits"]),
        (f"'items', 'vec', [1{'0' * 9999}, 0, 0]", InvalidInputError, ["not a number"]),
        (f"'items', 'vec', '{'[' * 9999}'", InvalidInputError, ["list of 3 numbers", "[[[..."]),
        ("'items', 'vec', [1, 2, 3], metric => NULL", InvalidInputError, ["metric must be", "None"]),
        ("'items', 'bits', [1, 256]", InvalidInputError, ["0 to 255"]),
        ("'items', 'bits', [1, 2.5]", InvalidInputError, ["whole numbers"]),
        ("'items', 'vec', [1, 2, 3], k => 0", InvalidInputError, ["k must be between 1 and", "0"]),
        ("'items', 'vec', [1, 2, 3], k => -1", InvalidInputError, ["k must be", "-1"]),
        ("'items', 'vec', [1, 2, 3], k => 1000001", InvalidInputError, ["k must be", "1000001"]),
        ("'items', 'vec', [1, 2, 3], k => 99999999999999999999", InvalidInputError, ["k must be"]),
        (
            f"'items', 'vec', [{', '.join(['[1, 2, 3]'] * 11)}], k => 1000000",
            InvalidInputError,
            ["1000000 rows for each of 11", "fewer"],
        ),
        ("'items', 'vec', [1, 2, 3], k => 2.5", InvalidInputError, ["k must be a whole number", "2.5"]),
        ("'items', 'vec', [1, 2, 3], k => NULL", InvalidInputError, ["k must be a whole number", "None"]),
        ("'items', 'vec', [1, 2, 3], k => 'ten'", InvalidInputError, ["k must be a whole number", "'ten'"]),
        ("'items', 'vec', [1, 2, 3], k => true", InvalidInputError, ["k must be a whole number"]),
        ("'items', 'vec', [1, 2, 3], k => 1 + 1", InvalidInputError, ["k must be a constant"]),
        ("'items', 'vec', [1, 2, 3], metric => 'manhattan'", InvalidInputError, ["l2, cosine, dot, hamming"]),
        ("'items', 'vec', [1, 2, 3], metric => 2", InvalidInputError, ["metric must be one of", "2"]),
        ("'items', 'vec', [1, 2, 3], metric => 'hamming'", InvalidInputError, ["uint8", "'vec'"]),
        ("'items', 'vec', [1, 2, 3], refine_factor => 0", InvalidInputError, ["refine_factor must be"]),
        ("'items', 'vec', [1, 2, 3], nprobes => 0", InvalidInputError, ["nprobes must be"]),
        ("'items', 'vec', [1, 2, 3], nprobs => -4", InvalidInputError, ["nprobes must be", "-4"]),
        (
            "'items', 'vec', [1, 2, 3], ef => 9, k => 10",
            InvalidInputError,
            ["ef must be at least k (10)", "9"],
        ),
        ("'items', 'vec', [1, 2, 3], prefilter => 1", InvalidInputError, ["prefilter must be true or false"]),
        ("'items', 'vec', [1, 2, 3], use_index => 'no'", InvalidInputError, ["use_index must be", "'no'"]),
        ("'items', 'vec', [1, 2, 3], staleness => 'some'", InvalidInputError, ["'exact', 'bloom'", "'some'"]),
        ("'items', 'vec', [1, 2, 3] k => 4", InvalidInputError, ["Expected: ), found: k"]),
        ("'items', 'vec', [1 2, 3]", InvalidInputError, ["Expected: ], found: 2"]),
        ("'items', 'vec', [1, 2, 3]::7", InvalidInputError, ["found: 7"]),
        ("'items', 'vec', [1, 2, 3", InvalidInputError, ["']' is expected"]),
        ("'items', 'vec', id", InvalidInputError, ["constant"]),
        ("'items', 'vec', -(1)", InvalidInputError, ["constant"]),
        ("'named', 'vec', [1, 2, 3]", InvalidInputError, ["'_distance'", "'named'"]),
    ],
)
def test_a_bad_vector_search(
    engine: QueryEngine, arguments: str, kind: type[LanceGatewayError], parts: list[str]
):
    check(refusal(engine, f"SELECT * FROM lance_vector_search({arguments})"), kind, *parts)


@pytest.mark.parametrize(
    ("arguments", "kind", "parts"),
    [
        ("'items', 'body'", InvalidInputError, ["needs query", "lance_fts(table, column, query"]),
        ("'items', 'body', NULL", InvalidInputError, ["query"]),
        ("'items', 'body', 7", InvalidInputError, ["query", "7"]),
        ("'items', 'body', ''", InvalidInputError, ["query"]),
        ("'items', 'body', '  '", InvalidInputError, ["query"]),
        ("'items', 'absent', 'fox'", NotFoundError, ["'absent'", "body"]),
        ("'items', 'id', 'fox'", InvalidInputError, ["'id'", "int64"]),
        ("'items', 'title', 'fox'", InvalidInputError, ["'title'", "text index"]),
        ("'empty', 'body', 'fox'", InvalidInputError, ["'body'", "text index"]),
        ("'items', 'body', 'fox', nprobes => 3", InvalidInputError, ["'nprobes'", "it has k, prefilter"]),
        ("'items', 'body', 'fox', k => 0", InvalidInputError, ["k must be"]),
        ("'best', 'body', 'fox'", InvalidInputError, ["'best'", "view"]),
    ],
)
def test_a_bad_text_search(
    engine: QueryEngine, arguments: str, kind: type[LanceGatewayError], parts: list[str]
):
    check(refusal(engine, f"SELECT * FROM lance_fts({arguments})"), kind, *parts)


@pytest.mark.parametrize(
    ("arguments", "kind", "parts"),
    [
        ("'items', 'vec', [1, 2, 3]", InvalidInputError, ["needs text_column"]),
        ("'items', 'vec', [1, 2, 3], 'body'", InvalidInputError, ["needs text_query"]),
        ("'items', 'body', 'fox', 'vec', [1, 2, 3]", InvalidInputError, ["'body'", "vector"]),
        ("'items', 'vec', [1, 2], 'body', 'fox'", InvalidInputError, ["2 numbers", "3"]),
        ("'items', 'vec', [1, 2, 3], 'title', 'fox'", InvalidInputError, ["'title'", "text index"]),
        ("'items', 'vec', [1, 2, 3], 'body', ''", InvalidInputError, ["query"]),
        (
            "'items', 'vec', [1, 2, 3], 'body', 'fox', alpha => 1.1",
            InvalidInputError,
            ["alpha", "0 and 1", "1.1"],
        ),
        ("'items', 'vec', [1, 2, 3], 'body', 'fox', alpha => -0.1", InvalidInputError, ["alpha", "-0.1"]),
        ("'items', 'vec', [1, 2, 3], 'body', 'fox', alpha => NULL", InvalidInputError, ["alpha", "None"]),
        ("'items', 'vec', [1, 2, 3], 'body', 'fox', alpha => 'half'", InvalidInputError, ["alpha", "'half'"]),
        (
            "'items', 'vec', [1, 2, 3], 'body', 'fox', fusion => 'max'",
            InvalidInputError,
            ["'weighted', 'rrf'"],
        ),
        (
            "'items', 'vec', [1, 2, 3], 'body', 'fox', rrf_k => 60",
            InvalidInputError,
            ["rrf_k", "fusion => 'rrf'"],
        ),
        (
            "'items', 'vec', [1, 2, 3], 'body', 'fox', fusion => 'rrf', alpha => 1",
            InvalidInputError,
            ["alpha", "fusion => 'weighted'"],
        ),
        (
            "'items', 'vec', [1, 2, 3], 'body', 'fox', fusion => 'rrf', rrf_k => 0",
            InvalidInputError,
            ["rrf_k must be"],
        ),
        (
            "'items', 'vec', [1, 2, 3], 'body', 'fox', oversample_factor => 0",
            InvalidInputError,
            ["oversample_factor must be"],
        ),
        (
            "'items', 'vec', [1, 2, 3], 'body', 'fox', ef => 39",
            InvalidInputError,
            ["ef must be at least k * oversample_factor (40), not 39"],
        ),
        (
            "'items', 'vec', [1, 2, 3], 'body', 'fox', staleness => 'bloom'",
            InvalidInputError,
            ["staleness", "'bloom'", "leave it out"],
        ),
        (
            "'items', 'vec', [1, 2, 3], 'body', 'fox', oversample => 2",
            InvalidInputError,
            ["oversample_factor"],
        ),
    ],
)
def test_a_bad_hybrid_search(
    engine: QueryEngine, arguments: str, kind: type[LanceGatewayError], parts: list[str]
):
    check(refusal(engine, f"SELECT * FROM lance_hybrid_search({arguments})"), kind, *parts)


NAN = pa.scalar([1.0, math.nan, 3.0], pa.list_(pa.float64()))


@pytest.mark.parametrize(
    ("call", "parameters", "parts"),
    [
        ("'items', 'vec', $1", [NAN], ["finite", "nan"]),
        ("'items', 'vec', $1", [pa.scalar([1.0, math.inf, 3.0])], ["finite", "inf"]),
        ("'items', 'vec', $1", [pa.scalar([1.0, None, 3.0])], ["finite", "None"]),
        ("'items', 'vec', $1", [pa.scalar(None, pa.list_(pa.float64()))], ["list of 3 numbers"]),
        ("'items', 'vec', $1", [pa.scalar([1.0, 2.0])], ["2 numbers", "3"]),
        ("'items', 'vec', $1", [pa.scalar(["a", "b", "c"])], []),
        ("'items', 'vec', [1, 2, 3], k => $1", [pa.scalar(0)], ["k must be", "0"]),
        ("'items', 'vec', [1, 2, 3], k => $1", [pa.scalar(None, pa.int64())], ["k must be", "None"]),
        ("'items', 'vec', [1, 2, 3], k => $1", [pa.scalar("ten")], ["'ten'"]),
        ("'items', 'vec', [1, 2, 3], prefilter => $1", [pa.scalar(None, pa.bool_())], ["prefilter"]),
        ("'items', $1, [1, 2, 3]", [pa.scalar("vec")], ["column must be", "can't be a parameter"]),
    ],
)
def test_a_parameter_that_can_not_be(
    engine: QueryEngine, call: str, parameters: list[pa.Scalar], parts: list[str]
):
    error = refusal(engine, f"SELECT * FROM lance_vector_search({call})", parameters)
    check(error, InvalidInputError, *parts)


def test_the_table_is_no_parameter(engine: QueryEngine):
    error = refusal(engine, "SELECT * FROM lance_vector_search($1, 'vec', [1, 2, 3])", [pa.scalar("items")])
    check(error, InvalidInputError, "the table is named by a string such as 'items'")


@pytest.mark.parametrize("function", ["lance_vector_searhc", "lance_search", "lance_fts_search"])
def test_a_function_that_does_not_exist(engine: QueryEngine, function: str):
    with pytest.raises((InvalidInputError, NotFoundError), match=function):
        engine.prepare(f"SELECT * FROM {function}('items', 'vec', [1, 2, 3])").execute().read_all()


def test_a_search_is_no_scalar(engine: QueryEngine):
    with pytest.raises((InvalidInputError, NotFoundError, UnsupportedError)):
        engine.prepare("SELECT lance_fts('items', 'body', 'fox')").execute().read_all()


def rows(engine: QueryEngine, sql: str) -> list[Any]:
    return engine.execute(sql).read_all().to_pylist()


def test_a_query_of_stop_words_finds_nothing(engine: QueryEngine):
    for words in ("the", "the a an of", "!?", "\u2603"):
        assert rows(engine, f"SELECT id FROM lance_fts('items', 'body', '{words}')") == []


def test_a_table_without_rows_has_no_neighbours(engine: QueryEngine):
    assert rows(engine, "SELECT id, _distance FROM lance_vector_search('empty', 'vec', [1, 2, 3])") == []


def test_more_rows_are_asked_for_than_there_are(engine: QueryEngine):
    for table, there in (("items", 6), ("plain", 2)):
        found = rows(engine, f"SELECT id FROM lance_vector_search('{table}', 'vec', [1, 2, 3], k => 1000000)")
        assert len(found) == there
    assert len(rows(engine, "SELECT id FROM lance_fts('items', 'body', 'fox', k => 1000000)")) == 6


def test_a_table_without_key_or_memwal_is_searched_too(engine: QueryEngine):
    assert rows(engine, "SELECT id FROM lance_fts('plain', 'body', 'hen')") == [{"id": 2}]
    (found,) = rows(
        engine, "SELECT id FROM lance_hybrid_search('plain', 'vec', [0, 1, 2], 'body', 'fox', k => 1)"
    )
    assert found == {"id": 1}
