"""Parts of changes: together they are all changes, and each key is in one of them."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.changes.key_parts import KeyPart
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, NO_SHORTCUTS, Shortcuts
from tests.planner.scans.changes.test_calls import read
from tests.support.judging.principals import create_principal
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.string(): st.text(max_size=9),
    pa.large_binary(): st.binary(max_size=9),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.decimal128(10, 2): st.decimals(-1000, 1000, places=2).map(Decimal),
    pa.binary(4): st.binary(min_size=4, max_size=4),
}


@given(st.data())
def test_each_key_is_in_one_part_wherever_it_stands(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*(VALUES[kind] for kind in types)), min_size=1, max_size=12))
    count = data.draw(st.integers(1, 5))
    parts = [KeyPart(number, count) for number in range(1, count + 1)]
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(types)]
    found = np.array([part.find(columns) for part in parts])
    assert (found.sum(axis=0) == 1).all()
    for at in range(len(rows)):
        alone = [column.slice(at, 1) for column in columns]
        assert [part.find(alone).tolist() for part in parts] == found[:, at : at + 1].tolist()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> LsmTable:
    """Rows 0 to 99 at version 2, then half of them change, one of them twice."""
    schema = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
    rows = pa.Table.from_pylist([{"id": key, "v": 0} for key in range(100)], schema=schema)
    root = tmp_path_factory.mktemp("lake")
    table = LsmTable.create(root, "t", rows, bucketed("id", 2, recorded=True), shared_writers)
    table.put([{"id": key, "v": 1} for key in range(50, 110)])
    table.close_writers()
    table.put([{"id": 50, "v": 2}])
    table.delete([{"id": 3}])
    return table


@pytest.fixture
def engine(lake: LsmTable, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    return open_engine(lake.path.parent)


@pytest.mark.parametrize("mode", ["net", "all"])
@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, NO_SHORTCUTS])
def test_parts_are_all_changes(engine: QueryEngine, mode: str, shortcuts: Shortcuts) -> None:
    ((token,),) = read(engine, "SELECT * FROM lance_position('t')")
    asked = "SELECT * FROM lance_changes('t', since => 2, until => '{}', mode => '{}'{})"
    whole = read(engine, asked.format(token, mode, ""), shortcuts=shortcuts)
    parts = [
        read(engine, asked.format(token, mode, f", part => {part}, parts => 4"), shortcuts=shortcuts)
        for part in range(1, 5)
    ]
    assert sorted(chain.from_iterable(parts)) == whole
    keys = [{row[0] for row in part} for part in parts]
    assert all(keys)
    assert sum(map(len, keys)) == len(set.union(*keys)) == 61
    one = asked.format(token, mode, ", parts => 4, part => 1")
    key = min(keys[0])
    assert read(engine, f"{one} WHERE id = {key}", shortcuts=shortcuts) == [
        row for row in whole if row[0] == key
    ]
    assert read(engine, f"SELECT count(*) FROM ({one})", shortcuts=shortcuts) == [(len(parts[0]),)]


def test_keys_of_several_columns(root: Path, open_engine: Callable[[Path], QueryEngine]) -> None:
    """A table without MemWAL, whose key no MemWAL takes."""
    schema = pa.schema(
        [
            key_field("day", pa.date32(), position=1),
            key_field("name", pa.string(), position=2),
            pa.field("v", pa.int64()),
        ]
    )
    rows = [{"day": dt.date(2026, 1, 1 + at % 20), "name": f"n{at}", "v": 0} for at in range(60)]
    lance.write_dataset(pa.Table.from_pylist(rows, schema=schema), root / "t.lance")
    lance.dataset(root / "t.lance").update({"v": "1"}, "name < 'n4'")
    engine = open_engine(root)
    asked = "SELECT day, name, v, _change FROM lance_changes('t', since => 1, until => 2{})"
    parts = [read(engine, asked.format(f", part => {part}, parts => 2")) for part in (1, 2)]
    assert sorted(parts[0] + parts[1]) == read(engine, asked.format(""))
    assert min(map(len, parts)) > 10


def test_how_many_rows_are_compared(engine: QueryEngine) -> None:
    def count(states: str, principal: Any = None) -> int | None:
        rows = read(engine, f"SELECT _rows FROM lance_position('t'{states})", *filter(None, [principal]))
        return rows[0][0]  # type: ignore[no-any-return]

    assert count(", since => 2, at => 2") == 0
    # The whole fragment, of which much is superseded; the generations, and the log tails.
    assert count(", since => 2") == 100 + 60 + 2
    ((token, rows),) = read(engine, "SELECT * FROM lance_position('t', since => 2)")
    assert rows == count(f", since => 2, at => '{token}'")
    whole = create_principal(t=TableAccess())
    assert count(", since => 2", whole) == rows
    assert count(", since => 2", create_principal(t=TableAccess(row_filter="id > 3"))) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("until => 2, part => 1", "belong together, with until"),
        ("until => 2, parts => 2", "belong together, with until"),
        ("part => 1, parts => 2", "belong together, with until"),
        ("part => 1, parts => 2, follow => true", "belong together, with until"),
        ("until => 2, part => 0, parts => 2", "no part 0 of 2"),
        ("until => 2, part => 3, parts => 2", "no part 3 of 2"),
        ("until => 2, part => 'a', parts => 2", "whole numbers from 1"),
    ],
)
def test_what_is_refused(engine: QueryEngine, arguments: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read(engine, f"SELECT * FROM lance_changes('t', since => 2, {arguments})")
