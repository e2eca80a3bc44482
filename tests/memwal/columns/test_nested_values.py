"""Values that are converted within others, and JSON as Lance stores it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_gateway.memwal.columns.json_values import decode_json, encode_json, normalize_json
from lance_gateway.memwal.columns.nested_fields import map_values, replace_fields
from lance_gateway.memwal.errors import InvalidInputError

NUMBER, TEXT = pa.int64(), pa.string()


def is_number(field: pa.Field) -> bool:
    return bool(field.type == NUMBER)


SHAPES: dict[str, tuple[pa.DataType, list[object], list[object]]] = {
    "plain": (NUMBER, [1, None, 3], ["1", None, "3"]),
    "struct": (
        pa.struct({"a": NUMBER, "b": TEXT}),
        [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}],
        [{"a": "1", "b": "x"}, None, {"a": None, "b": "y"}],
    ),
    "list": (pa.list_(NUMBER), [[1, 2], None, [], [None]], [["1", "2"], None, [], [None]]),
    "large list": (pa.large_list(NUMBER), [[1], None], [["1"], None]),
    "fixed list": (pa.list_(NUMBER, 2), [[1, 2], None, [3, None]], [["1", "2"], None, ["3", None]]),
    "map": (pa.map_(TEXT, NUMBER), [[("a", 1)], None, []], [[("a", "1")], None, []]),
    "list of structs": (
        pa.list_(pa.struct({"a": NUMBER})),
        [[{"a": 1}, None], None],
        [[{"a": "1"}, None], None],
    ),
    "untouched": (pa.list_(TEXT), [["x"], None], [["x"], None]),
}


@pytest.mark.parametrize(("kind", "values", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_values_are_converted_at_every_depth(
    kind: pa.DataType, values: list[object], expected: list[object]
) -> None:
    field = pa.field("c", kind, metadata={"kept": "yes"})
    target = replace_fields(field, is_number, lambda one: one.with_type(TEXT))
    assert target.metadata == {b"kept": b"yes"}
    for start in range(len(values)):
        given = pa.array(values, kind).slice(start)
        found = map_values(given, field, target, is_number, lambda part, wanted: part.cast(wanted))
        found.validate(full=True)
        assert found.type == target.type
        assert found.to_pylist() == expected[start:]


def test_json_is_what_lance_makes_of_it() -> None:
    stored = ['{ "b":1.50, "a":[1e5, null, true, "é"] }', None, "3", "null", '"s"', "{}"]
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(stored))
    expected = ['{"a":[100000.0,null,true,"é"],"b":1.5}', None, "3", "null", '"s"', "{}"]
    assert decode_json(encode_json(texts)).to_pylist() == expected
    rows = pa.table({"id": range(6), "j": texts})
    assert normalize_json(rows).column("j").to_pylist() == expected
    assert normalize_json(rows.slice(0, 0)).num_rows == 0
    assert normalize_json(rows.select(["id"])).equals(rows.select(["id"]))


def test_what_lance_takes_for_no_json_is_refused() -> None:
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["bad"]))
    for convert in (encode_json, lambda values: normalize_json(pa.table({"j": values}))):
        with pytest.raises(InvalidInputError, match="a text is not valid JSON"):
            convert(texts)
