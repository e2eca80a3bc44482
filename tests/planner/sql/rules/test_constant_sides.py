"""Comparisons with a constant on the left are combined rightly with those on the right. DuckDB judges."""

from collections.abc import Iterator
from itertools import product

import pyarrow as pa
import pytest

from tests.support.judging.judged import Judged, open_judged

T = pa.table({"id": [0, 1, 2, 3, None]})
U = pa.table({"id": [0, 1, 2, 7], "s": ["a", "b", None, "z"]})
MIRRORED = ("1 < {}", "1 >= {}", "1 = {}", "NOT (1 <= {})", "CAST('1' AS BIGINT) = {}")
USUAL = ("{} >= 1", "{} <= 1", "{} = 1", "{} BETWEEN 1 AND 2")
SHAPES = (
    "SELECT t.id, u.id FROM t JOIN u ON {a_u} WHERE {b_u}",
    "SELECT t.id, u.id FROM t RIGHT JOIN u ON {a_t} WHERE {b_t}",
    "SELECT t.id, v.id FROM t LEFT JOIN (SELECT * FROM u WHERE {b_u}) AS v ON {a_v}",
    "SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND {a_t}) AND {b_t}",
    "SELECT t.id FROM t WHERE 1 IN (SELECT u.id FROM u WHERE {a_u} AND {b_u})",
    "SELECT t.id FROM t WHERE 1 = ANY (SELECT u.id FROM u WHERE u.id = t.id AND {b_u}) OR {a_t}",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("sides"), {"t": T, "u": U}) as opened:
        yield opened


@pytest.mark.parametrize("shape", SHAPES)
def test_both_sides_are_combined_rightly(judged: Judged, shape: str) -> None:
    for mirrored, usual in product(MIRRORED, USUAL):
        names = {f"a_{one}": mirrored.format(f"{one}.id") for one in "tuv"}
        sql = shape.format(**names, **{f"b_{one}": usual.format(f"{one}.id") for one in "tuv"})
        judged.check(sql)


def test_parameters_are_constants(judged: Judged) -> None:
    plan = judged.engine.prepare("SELECT t.id FROM t JOIN u ON $1 = t.id AND u.id = $2 WHERE t.id = $1")
    assert plan.execute([pa.scalar(1), pa.scalar(7)]).read_all().to_pydict() == {"id": [1]}


def test_a_member_may_be_a_parameter(judged: Judged) -> None:
    plan = judged.engine.prepare("SELECT id FROM t WHERE ? IN (SELECT u.id FROM u WHERE u.id = 1) AND id = 2")
    assert plan.execute([pa.scalar(1)]).read_all().to_pydict() == {"id": [2]}
    assert plan.execute([pa.scalar(7)]).read_all().num_rows == 0


def test_outputs_keep_their_names(judged: Judged) -> None:
    assert judged.engine.execute("SELECT 1 < id FROM t WHERE 1 < id").read_all().schema.names == [
        "Int64(1) < t.id"
    ]
