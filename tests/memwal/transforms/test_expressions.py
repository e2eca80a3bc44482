"""Region expressions are evaluated by DataFusion, and follow from their row alone."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.transforms.transforms import build_transform, compute_region_values
from tests.memwal.transforms.fields import field_of, values


def test_columns_are_named_by_their_order():
    got = values(
        field_of(None, expression="coalesce(col1, 'none') || '/' || (col0 % 3)", result="utf8"),
        pa.array([4, 5, None], pa.int64()),
        pa.array(["a", None, "c"]),
    )
    assert got == pa.array(["a/1", "none/2", None])


def test_rows_keep_their_order():
    numbers = pa.array(range(50_000))
    assert values(field_of(None, expression="col0 + 1", result="int64"), numbers).to_pylist() == list(
        range(1, 50_001)
    )


def test_threads_may_evaluate_at_the_same_time():
    def evaluate(number: int) -> list[object]:
        field = field_of(None, expression=f"col0 * {number}", result="int64")
        return values(field, pa.array([1, 2])).to_pylist()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(evaluate, range(64))) == [[at, 2 * at] for at in range(64)]


def test_a_constant_needs_no_column():
    spec = RegionSpec(1, (RegionField("f", (), None, "1 + 1", "int32"),))
    assert compute_region_values(spec, {5: pa.array(["x", "y"])}) == (pa.array([2, 2], pa.int32()),)


def test_it_has_as_many_values_as_its_columns():
    for field in (field_of(None, expression="col0 + 1"), field_of(None, expression="7")):
        (first, *_) = got = build_transform(field).apply([pa.array([6, 6, 6])])
        assert (len(got), first.as_py()) == (3, 7)


def test_without_any_column_there_is_one_row():
    fields = (field_of("unsharded"), field_of("identity"))
    assert [got.to_pylist() for got in compute_region_values(RegionSpec(1, fields[:1]), {})] == [[0]]
    assert [got.to_pylist() for got in compute_region_values(RegionSpec(1, fields[1:]), {})] == [[None]]


@pytest.mark.parametrize("expression", ["col0 +", "nope(col0)", "col7", "'x'"])
def test_one_that_datafusion_rejects_is_named(expression: str):
    with pytest.raises(InvalidInputError, match=r"Region expression .* cannot be evaluated: .{1,250}$"):
        values(field_of(None, expression=expression), pa.array([1]))


@pytest.mark.parametrize(
    "expression",
    [
        "random() * col0",
        "CAST(rand() * 8 AS BIGINT)",
        "CASE WHEN col0 > 1 THEN 1 ELSE CAST(RAND() * 8 AS INT) END",
        "length(uuid())",
        "sum(col0)",
        "col0 + (SELECT 1)",
        "date_part('day', current_timestamp)",
        "date_part('day', today())",
        "col0 + date_part('year', now())",
        "CURRENT_DATE",
        "row_number() over ()",
    ],
)
def test_one_that_depends_on_more_than_its_row_is_refused(expression: str):
    with pytest.raises(UnsupportedError, match="its value must follow from the row alone"):
        values(field_of(None, expression=expression), pa.array([1, 2, 3]))


@pytest.mark.parametrize("text", ["random()", "select", "over (", "CURRENT_DATE"])
def test_names_of_functions_may_stand_in_text(text: str):
    field = field_of(None, expression=f"CASE WHEN col0 = '{text}' THEN 1 ELSE 0 END")
    assert values(field, pa.array([text, "x"])).to_pylist() == [1, 0]


@pytest.mark.parametrize(
    "expression", [f"arrow_cast(col0, '{'List(' * 8000}Int64{')' * 8000}')", "(" * 5000 + "1"]
)
def test_one_that_is_too_deep_is_refused(expression: str):
    with pytest.raises(InvalidInputError, match="more than 100 levels of brackets"):
        values(field_of(None, expression=expression), pa.array([1]))
