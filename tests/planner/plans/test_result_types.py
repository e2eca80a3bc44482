"""The advertised types are those that the values have in the end, whatever the statement looks like."""

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from tests.support.lake.tables import key_field


@pytest.fixture
def engine(root: Path, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    schema = pa.schema(
        [key_field("id", pa.int64()), ("amount", pa.float64()), ("price", pa.decimal128(12, 2))]
    )
    rows = pa.table([[1, 2], [0.5, 1.5], pa.array(["1.25", "2.5"]).cast(pa.decimal128(12, 2))], schema=schema)
    lance.write_dataset(rows, root / "items.lance")
    return open_engine(root)


@pytest.mark.parametrize(
    ("text", "type_", "values"),
    [
        ("SELECT CASE WHEN id > 1 THEN -1 ELSE amount END AS v FROM items", pa.float64(), [0.5, -1.0]),
        ("SELECT id AS v FROM items UNION ALL SELECT amount FROM items", pa.float64(), [0.5, 1.0, 1.5, 2.0]),
        ("SELECT make_array(id, amount)[2] AS v FROM items", pa.float64(), [0.5, 1.5]),
        (
            "SELECT CAST(CASE WHEN id > 1 THEN 0 ELSE price END AS DOUBLE) AS v FROM items",
            pa.float64(),
            [1.25, 0.0],
        ),
    ],
)
def test_types_are_known_after_coercion(
    engine: QueryEngine, text: str, type_: pa.DataType, values: list[float]
) -> None:
    prepared = engine.prepare(text)
    assert prepared.schema.types == [type_]
    assert sorted(prepared.execute().read_all()["v"].to_pylist()) == sorted(values)


def test_conditions_that_fold_to_constants_do_not_disturb_each_other(engine: QueryEngine) -> None:
    text = "SELECT * FROM items LEFT SEMI JOIN items AS u ON FALSE WHERE 9 BETWEEN NULL AND items.amount"
    assert engine.execute(text).read_all().num_rows == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT sum(NULL) FROM items", "SUM not supported for Null"),
        ("SELECT round(amount, 9223372036854775807) FROM items", "out of supported i32 range"),
        ("SELECT (SELECT id FROM items)", "returned more than one row"),
    ],
)
def test_what_the_arguments_do_not_allow_is_the_statements_fault(
    engine: QueryEngine, text: str, said: str
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        engine.execute(text).read_all()


def test_a_nul_character_is_shown_where_it_is(engine: QueryEngine) -> None:
    with pytest.raises(InvalidInputError, match=r"A NUL character \(line 1, column 10"):
        engine.prepare("SELECT '1\x002'")


def test_what_the_translator_stumbles_over_is_refused(engine: QueryEngine) -> None:
    with pytest.raises(UnsupportedError, match="spark SQL: the statement cannot be translated"):
        engine.prepare("SELECT map(id, 1, 2) FROM items", SessionSettings(dialect="spark"))
