"""Values of any Arrow type as JSON; Python's json is the judge."""

import base64
import datetime as dt
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.bridge.json.changing import Change, change, merge_patch, set_at_keys
from lance_gateway.planner.bridge.json.functions import JSON_FUNCTIONS
from lance_gateway.planner.bridge.json.writing import refuse_unwritten, write_json
from lance_gateway.planner.sql.forms.json_values import WRITTEN

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
FIRST, LAST = dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1)
LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    (pa.binary(), st.binary(max_size=4)),
    (pa.decimal128(20, 3), st.decimals(-9999, 9999, places=3)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "+02:00"), st.datetimes(FIRST, LAST, timezones=st.just(dt.UTC))),
    (pa.time64("us"), st.times()),
]


def types_and_values() -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """A type, and its values."""

    def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = inner.flatmap(
            lambda one: st.sampled_from(
                [
                    (pa.list_(one[0]), st.lists(st.none() | one[1], max_size=3)),
                    (pa.large_list(one[0]), st.lists(st.none() | one[1], max_size=3)),
                    (pa.list_(one[0], 2), st.lists(st.none() | one[1], min_size=2, max_size=2)),
                    (pa.map_(pa.string(), one[0]), st.dictionaries(TEXTS, st.none() | one[1], max_size=2)),
                ]
            )
        )
        structs = st.tuples(inner, inner).map(
            lambda pair: (
                pa.struct([("a", pair[0][0]), ('b"', pair[1][0])]),
                st.fixed_dictionaries({"a": st.none() | pair[0][1], 'b"': st.none() | pair[1][1]}),
            )
        )
        return lists | structs

    return st.recursive(st.sampled_from(LEAVES), nest, max_leaves=4)


@given(st.data())
def test_every_type_is_written(data: st.DataObject) -> None:
    kind, values = data.draw(types_and_values())
    rows = data.draw(st.lists(st.none() | values, max_size=5))
    if pa.types.is_map(kind):
        rows = [None if one is None else list(one.items()) for one in rows]
    array = pa.array(_spell_maps(rows), kind)
    written = write_json(array, kind)
    assert written.type == pa.string()
    expected = [_expect(value, kind) for value in array.to_pylist()]
    found = [None if one is None else json.loads(one, parse_float=_Exact) for one in written.to_pylist()]
    assert list(map(_compare, found)) == list(map(_compare, expected))
    assert write_json(array.slice(1), kind).to_pylist() == written.to_pylist()[1:]


class _Exact(str):
    """A number by its digits."""

    __slots__ = ()


def _compare(value: Any) -> Any:
    if isinstance(value, _Exact):
        return float(value)
    if isinstance(value, list):
        return [_compare(one) for one in value]
    return {key: _compare(one) for key, one in value.items()} if isinstance(value, dict) else value


def _spell_maps(value: Any) -> Any:
    """Maps within others are lists of pairs for pyarrow, which structs are not."""
    if isinstance(value, list):
        return [_spell_maps(one) for one in value]
    if isinstance(value, dict) and set(value) != {"a", 'b"'}:
        return [(key, _spell_maps(one)) for key, one in value.items()]
    return {key: _spell_maps(one) for key, one in value.items()} if isinstance(value, dict) else value


def _expect(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if value is None:
        return None
    if types.is_map(kind):
        return {key: _expect(one, kind.item_type) for key, one in value}
    if types.is_struct(kind):
        return {field.name: _expect(value[field.name], field.type) for field in kind}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [_expect(one, kind.value_type) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if types.is_float32(kind):
        return float(pa.scalar(value, kind).cast(pa.string()).as_py())
    if isinstance(value, Decimal):
        return float(value) if kind.scale else int(value)
    if isinstance(value, bytes):
        return "\\x" + base64.b16encode(value).decode().lower()
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return _cut(value.astimezone(dt.UTC).replace(tzinfo=None).isoformat()) + "+00:00"
    return _cut(value.isoformat()) if isinstance(value, dt.date | dt.time) else value


def _cut(text: str) -> str:
    return text.rstrip("0") if "." in text else text


def test_extension_types_are_what_they_mean() -> None:
    some = uuid.UUID("12345678-1234-5678-1234-567812345678")
    stored = pa.array([some.bytes, None], pa.uuid())
    assert write_json(stored, pa.uuid()).to_pylist() == [f'"{some}"', None]
    assert write_json(stored.storage, pa.uuid()).to_pylist() == [f'"{some}"', None]
    documents = pa.array(['{"a":1}', None], pa.json_())
    assert write_json(documents, pa.json_()).to_pylist() == ['{"a":1}', None]
    rows = pa.StructArray.from_arrays([documents, stored], ["j", "u"])
    assert write_json(rows, rows.type)[0].as_py() == f'{{"j":{{"a":1}},"u":"{some}"}}'


def test_all_functions_that_are_spelled_are_there() -> None:
    assert {name.lower() for name in WRITTEN} == JSON_FUNCTIONS


@pytest.mark.parametrize("kind", [pa.duration("s"), pa.month_day_nano_interval(), pa.list_(pa.duration("s"))])
def test_types_without_values_in_json_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedError, match="cast it to text"):
        refuse_unwritten(kind)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(JSON, JSON)
def test_a_merge_patch_applied_twice_is_applied_once(target: Any, patch: Any) -> None:
    once = merge_patch(json.dumps(target), json.dumps(patch))
    assert merge_patch(once, json.dumps(patch)) == once
    assert json.loads(merge_patch(json.dumps(patch), "{}")) == (patch if isinstance(patch, dict) else {})


@given(st.dictionaries(TEXTS, JSON, max_size=3), TEXTS, JSON)
def test_changes_of_fields_are_those_of_dicts(document: dict[str, Any], name: str, value: Any) -> None:
    text, path, written = json.dumps(document), f"$.{json.dumps(name)}", json.dumps(value)
    assert json.loads(change(Change.SET)(text, path, written)) == {**document, name: value}
    assert json.loads(change(Change.INSERT)(text, path, written)) == {name: value, **document}
    replaced = {**document, name: value} if name in document else document
    assert json.loads(change(Change.REPLACE)(text, path, written)) == replaced
    left = {key: one for key, one in document.items() if key != name}
    assert json.loads(change(Change.REMOVE)(text, path)) == left


def test_keys_of_postgres_are_quoted_as_elements_of_its_arrays() -> None:
    assert set_at_keys('{"a b":{"c,d":1}}', '{"a b","c,d"}', "2", creates=True) == '{"a b":{"c,d":2}}'
    assert set_at_keys("[1]", "{}", "2", creates=True) == "2"
    with pytest.raises(InvalidInputError, match="is not a path"):
        set_at_keys("[1]", "0", "2", creates=True)
