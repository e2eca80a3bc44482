"""Parameters have the types of their values where the text does not tell. DuckDB judges."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

T = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "i": pa.array([1, 2, 3, None], pa.int32()),
        "s": ["a", "b", "c", None],
        "f": [1.5, 2.5, None, 0.5],
        "r": pa.array([1.5, 2.5, None, 0.5], pa.float32()),
        "d": pa.array([Decimal("1.50"), Decimal("2.50"), None, None], pa.decimal128(10, 2)),
    }
)
DAY, MOMENT = dt.date(2024, 1, 1), dt.datetime(2024, 1, 2, 3)
QUERIES: list[tuple[str, list[Any]]] = [
    ("SELECT sum(CASE WHEN id IS NULL THEN ? ELSE ? END) AS x FROM t", [1, 2]),
    ("SELECT sum(CASE WHEN id IS NULL THEN ? ELSE ? END) AS x FROM t", [1.5, 2.0]),
    ("SELECT sum(?) AS x FROM t WHERE s > ?", [2, "a"]),
    ("SELECT sum(id * ?) AS x FROM t", [1.5]),
    ("SELECT sum(id * ?) AS x FROM t", [2]),
    ("SELECT id / ? AS x FROM t", [2.0]),
    ("SELECT id / (?) AS x FROM t", [2.0]),
    ("SELECT i + ?, id - ? FROM t", [0.5, Decimal("1.5")]),
    ("SELECT r * ? AS x FROM t", [0.1]),
    ("SELECT d + ? AS x FROM t", [0.125]),
    ("SELECT f * ? AS x FROM t", [3]),
    ("SELECT ? + 1 AS x", [1.5]),
    ("SELECT ? + ? AS x", [1, 2.5]),
    ("SELECT -? AS x", [3]),
    ("SELECT abs(?) AS x", [-1.5]),
    ("SELECT abs(?) AS x", [-1]),
    ("SELECT round(?, 2) AS x", [1.256]),
    ("SELECT power(?, 2) AS x", [3]),
    ("SELECT id FROM t WHERE id = ANY(?)", [[1, 2]]),
    ("SELECT id FROM t WHERE s = ANY(?)", [["a", "it's"]]),
    ("SELECT id FROM t WHERE id <> ALL(?)", [[1, 2]]),
    ("SELECT list_contains(?, id) AS x FROM t WHERE id > 0", [[1, 3]]),
    ("SELECT coalesce(?, id) AS x FROM t", [7]),
    ("SELECT coalesce(id, ?) AS x FROM t", [1.5]),
    ("SELECT coalesce(?, s) AS x FROM t", ["x"]),
    ("SELECT coalesce(?, ?) AS x", [None, 8]),
    ("SELECT greatest(id, ?) AS x FROM t WHERE id > 0", [2]),
    ("SELECT nullif(id, ?) AS x FROM t", [2]),
    ("SELECT {'a': id} = coalesce(?, ?) AS x FROM t", [{"a": 1}, {"a": 2}]),
    ("SELECT ? AS a, ? AS b, ? AS c, ? AS d", [1, "x", DAY, True]),
    ("SELECT date_trunc('month', ?) AS x", [MOMENT]),
    ("SELECT max(?) AS x FROM t", [2.5]),
    ("SELECT ? + INTERVAL '1 day' AS x", [MOMENT]),
    ("SELECT INTERVAL '1 month' + ? AS x", [MOMENT]),
    ("SELECT id FROM t WHERE id > 0 AND ? - INTERVAL '1 day' < TIMESTAMP '2024-01-02'", [MOMENT]),
    ("SELECT CAST('2024-01-05' AS TIMESTAMP(6)) - ? AS x", [dt.timedelta(days=2)]),
    ("SELECT CAST('2024-01-05' AS TIMESTAMP(6)) - ? AS x", [MOMENT]),
    ("SELECT * FROM (VALUES (?, ?)) v", [1, "x"]),
    ("SELECT CASE WHEN id = 1 THEN ? ELSE s END AS x FROM t", ["q"]),
    ("SELECT id FROM t WHERE ? BETWEEN 1 AND id", [1.5]),
    ("SELECT id FROM t WHERE ? IS NULL OR id = ?", [None, 1]),
    ("SELECT id FROM t WHERE id < ? * 2", [0.9]),
    ("SELECT id FROM t WHERE id = ? AND d = ?", [1.0, 1.5]),
    ("SELECT id FROM t WHERE id IN (SELECT id + ? FROM t)", [1]),
]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("values"), {"t": T}) as opened:
        yield opened


@pytest.mark.parametrize(("sql", "values"), QUERIES)
def test_values_count_as_they_are(judged: Judged, sql: str, values: list[Any]) -> None:
    table = judged.engine.execute(sql, parameters=list(map(pa.scalar, values))).read_all()
    expected = judged.judge.execute(sql, values).fetchall()
    assert sorted(rows_of(table), key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    ("sql", "offered"),
    [
        ("SELECT id FROM t WHERE id = ?", [pa.int64()]),
        ("SELECT ? AS x", [pa.string()]),
        ("SELECT id * ? AS x FROM t WHERE s = ?", [pa.int64(), pa.string()]),
        ("SELECT abs(?) AS x", [pa.float64()]),
        (
            "SELECT id FROM t WHERE f = ANY(?) AND s <> ALL (?)",
            [pa.list_(pa.float64()), pa.list_(pa.string())],
        ),
        ("SELECT id FROM t WHERE d = ANY(?)", [pa.list_(pa.decimal128(10, 2))]),
        ("SELECT sum(CASE WHEN s = ? THEN ? END) AS x FROM t", [pa.float64(), pa.float64()]),
    ],
)
def test_who_asks_before_binding_is_offered_a_type_that_fits(
    judged: Judged, sql: str, offered: list[pa.DataType]
) -> None:
    assert judged.engine.prepare(sql).parameter_schema.types == offered


def test_one_statement_is_planned_once_for_each_set_of_types(judged: Judged) -> None:
    engine, sql = judged.engine, "SELECT id * ? AS x FROM t"
    whole, half, again = (
        engine.prepare(sql, bound=[kind]) for kind in (pa.int32(), pa.float64(), pa.int64())
    )
    assert whole is again
    assert (whole.schema.types, half.schema.types) == ([pa.int64()], [pa.float64()])
    assert engine.prepare(sql, bound=[pa.float64()]) is half
    # Binding again what was settled settles the same, under the promise of either plan.
    assert engine.prepare(sql, bound=half.parameter_schema.types, promised=half.digest) is half
    assert engine.prepare(sql, bound=[pa.float64()], promised=whole.digest) is half


def test_compared_values_have_the_type_of_the_column(judged: Judged) -> None:
    prepared = judged.engine.prepare("SELECT id FROM t WHERE id = ?", bound=[pa.float64()])
    assert prepared.parameter_schema.types == [pa.int64()]


def test_values_that_no_plan_takes_are_refused_for_what_they_are(judged: Judged) -> None:
    with pytest.raises(InvalidInputError, match="abs"):
        judged.engine.execute("SELECT abs(?)", parameters=[pa.scalar("x")])


def test_a_result_that_values_would_change_is_not_said_to_be_an_altered_table(judged: Judged) -> None:
    prepared = judged.engine.prepare("SELECT id * ? AS x FROM t")
    with pytest.raises(InvalidInputError, match=r"parameter \$1 is 1.5 \(double\), but int64 is needed"):
        prepared.execute([pa.scalar(1.5)]).read_all()


def test_a_statement_is_not_answered_without_its_corrections(judged: Judged) -> None:
    # DataFusion alone takes ^ for an exclusive OR, and nvl() for a text.
    with pytest.raises(InvalidInputError, match="Cannot cast string"):
        judged.engine.execute("SELECT id ^ 2 AS p, nvl(id, '1.104') AS q FROM t").read_all()
