"""Which version of a row a query sees, where the data lies in places that are easy to read wrongly."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.bloom import FILTER_FILE
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from tests.support.judging.results import rows_of
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import Layout, LsmTable, bucketed, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32()), pa.field("f", pa.float64())])
SWAPPED = pa.schema([key_field("id", pa.int64()), pa.field("a", pa.int32()), pa.field("b", pa.int32())])
ONE_REGION = unpartitioned(("id",), 1)
Open = Callable[[Path], QueryEngine]


def row(number: int, n: int | None = None, f: float | None = None) -> dict[str, Any]:
    return {"id": number, "n": n, "f": f}


@pytest.fixture
def create(root: Path, writers: WriterProcess) -> Callable[..., LsmTable]:
    """Creates table ``t`` with base rows; each flush of its one region makes a generation."""

    def create_table(
        *rows: dict[str, Any], schema: pa.Schema = SCHEMA, layout: Layout = ONE_REGION, limit: int = 100
    ) -> LsmTable:
        base = pa.Table.from_pylist(list(rows), schema=schema)
        return LsmTable.create(root, "t", base, layout, writers, max_memtable_rows=limit)

    return create_table


def flushed(table: LsmTable, *rows: dict[str, Any]) -> str:
    """Write rows as a generation of their own; returns the region of the first."""
    table.put(rows)
    table.close_writers()
    return table.region_of(rows[0])


def answer(engine: QueryEngine, sql: str, **settings: Any) -> list[tuple[Any, ...]]:
    rows = rows_of(engine.execute(sql, SessionSettings(**settings)).read_all())
    return sorted(rows, key=lambda cells: [(cell is not None, cell or 0) for cell in cells])


def test_a_filter_is_judged_on_the_newest_version_only(create: Any, root: Path, open_engine: Open):
    table = create(row(1, n=5), row(2, n=5))
    flushed(table, row(1, n=10))
    engine = open_engine(root)
    assert answer(engine, "SELECT id FROM t WHERE n = 5") == [(2,)]
    assert answer(engine, "SELECT id FROM t WHERE id = 1 AND n = 5") == []
    assert answer(engine, "SELECT n FROM t WHERE id = 1") == [(10,)]


def test_a_merged_generation_is_dropped_though_its_manifest_lists_it(
    create: Any, root: Path, open_engine: Open
):
    table = create(row(1, n=1))
    region = flushed(table, row(1, n=2))
    merge_generations(table.path, region, up_to=1)
    upsert = table.dataset().merge_insert(["id"]).when_matched_update_all()
    upsert.execute(pa.Table.from_pylist([row(1, n=3)], schema=SCHEMA))
    engine = open_engine(root)
    assert answer(engine, "SELECT n FROM t") == [(3,)]
    assert answer(engine, "SELECT n FROM t WHERE id = 1") == [(3,)]
    clean_up_merged(table.path, region)
    assert answer(engine, "SELECT n FROM t") == [(3,)]


def test_wal_entries_of_a_merged_generation_are_dropped(create: Any, root: Path, open_engine: Open):
    """The log may still hold what was flushed and merged long ago: its rows are the base table's business."""
    table = create(row(1, n=1))
    region = flushed(table, row(1, n=2))
    merge_generations(table.path, region, up_to=1)
    manifest = manifests.read_manifest(table.path, region)
    manifest.version += 1
    manifest.replay_after_wal_entry_position = 0
    del manifest.flushed_generations[:]
    manifests.write_manifest(table.path, manifest)
    upsert = table.dataset().merge_insert(["id"]).when_matched_update_all()
    upsert.execute(pa.Table.from_pylist([row(1, n=3)], schema=SCHEMA))
    engine = open_engine(root)
    assert answer(engine, "SELECT n FROM t") == [(3,)]
    assert answer(engine, "SELECT n FROM t WHERE id = 1") == [(3,)]


@pytest.mark.parametrize("flush_between", [True, False])
def test_a_key_lives_again_after_its_delete(create: Any, root: Path, open_engine: Open, flush_between: bool):
    table = create(row(1, n=1))
    engine = open_engine(root)
    table.delete([row(1)])
    if flush_between:
        table.close_writers()
    assert answer(engine, "SELECT count(*) FROM t") == [(0,)]
    assert answer(engine, "SELECT * FROM t WHERE id = 1") == []
    table.put([row(1, n=2)])
    assert answer(engine, "SELECT n FROM t WHERE id = 1") == [(2,)]
    table.close_writers()
    assert answer(engine, "SELECT id, n FROM t") == [(1, 2)]
    table.delete([row(1)])
    assert answer(engine, "SELECT count(*), count(n) FROM t") == [(0, 0)]


def test_the_last_of_a_keys_duplicates_wins_within_one_write(create: Any, root: Path, open_engine: Open):
    table = create()
    table.put([row(1, n=1), row(1, n=2), row(2, n=9), row(1, n=3)])
    engine = open_engine(root)
    for _ in range(2):
        assert answer(engine, "SELECT id, n FROM t") == [(1, 3), (2, 9)]
        assert answer(engine, "SELECT n FROM t WHERE id = 1") == [(3,)]
        assert answer(engine, "SELECT count(*) FROM t WHERE n < 3") == [(0,)]
        table.close_writers()


def test_the_last_of_a_keys_duplicates_wins_across_writes_of_one_generation(
    create: Any, root: Path, open_engine: Open
):
    table = create(row(1, n=0))
    for number in range(1, 4):
        table.put([row(1, n=number)])
    table.close_writers()
    engine = open_engine(root)
    assert answer(engine, "SELECT id, n FROM t") == [(1, 3)]
    assert answer(engine, "SELECT n FROM t WHERE id = 1") == [(3,)]


def test_nulls_are_rows_like_any_other_in_every_place(create: Any, root: Path, open_engine: Open):
    table = create(row(1), row(2, n=2))
    flushed(table, row(3), row(4, n=4))
    table.put([row(5), row(6, n=6)])
    engine = open_engine(root)
    assert answer(engine, "SELECT id FROM t WHERE n IS NULL") == [(1,), (3,), (5,)]
    assert answer(engine, "SELECT id FROM t WHERE n IS NOT NULL") == [(2,), (4,), (6,)]
    assert answer(engine, "SELECT id FROM t WHERE NOT (n = 2)") == [(4,), (6,)]
    assert answer(engine, "SELECT count(*), count(n), count(f) FROM t") == [(6, 3, 0)]


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("f > 2.5", [3.0, math.nan]),
        ("f = 'NaN'", [math.nan]),
        ("f < 3", [1.0]),
        ("f <> 3", [1.0, math.nan]),
        ("f IN (1, 'NaN')", [1.0, math.nan]),
        ("f BETWEEN 2 AND 'NaN'", [3.0, math.nan]),
        ("NOT (f > 2.5)", [1.0]),
    ],
)
def test_nan_is_greater_than_every_number_in_every_place(
    create: Any, root: Path, open_engine: Open, predicate: str, expected: list[float]
):
    """As DataFusion orders floats, wherever the row lies."""
    values = [1.0, 3.0, math.nan, None]
    table = create(*(row(number, f=value) for number, value in enumerate(values)))
    flushed(table, *(row(10 + number, f=value) for number, value in enumerate(values)))
    table.put([row(20 + number, f=value) for number, value in enumerate(values)])
    found = answer(open_engine(root), f"SELECT id FROM t WHERE {predicate}")
    wanted = [number for number, value in enumerate(values) if repr(value) in map(repr, expected)]
    assert found == sorted((place + number,) for place in (0, 10, 20) for number in wanted)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("id IN (1, NULL, 3)", [1, 3]),
        ("id NOT IN (1, NULL)", []),
        ("id IN (NULL)", []),
        ("id = 1 AND n IN (1, NULL)", [1]),
        ("id = 1 AND id = 2", []),
        ("id = NULL", []),
    ],
)
@pytest.mark.parametrize("pruning", [True, False])
def test_null_in_a_list_of_keys_matches_nothing(
    create: Any, root: Path, open_engine: Open, predicate: str, expected: list[int], pruning: bool
):
    table = create(row(1, n=1), row(2, n=2), layout=bucketed("id", 3, recorded=True))
    table.put([row(3, n=3)])
    found = answer(open_engine(root), f"SELECT id FROM t WHERE {predicate}", region_pruning=pruning)
    assert found == [(number,) for number in expected]


def field_ids(table: LsmTable) -> dict[str, int]:
    return {column.name(): column.id() for column in table.dataset().lance_schema.fields()}


def test_an_added_column_may_share_its_field_id_with_an_older_generations_tombstones(
    create: Any, root: Path, open_engine: Open
):
    table = create(row(1, n=1))
    flushed(table, row(2, n=2))
    table.dataset().add_columns(pa.schema([pa.field("w", pa.bool_())]))
    assert field_ids(table)["w"] == len(SCHEMA)  # where the generation keeps `_tombstone`
    engine = open_engine(root)
    assert answer(engine, "SELECT id, n, w FROM t") == [(1, 1, None), (2, 2, None)]
    assert answer(engine, "SELECT id FROM t WHERE w IS NULL") == [(1,), (2,)]
    assert answer(engine, "SELECT w FROM t WHERE id = 2") == [(None,)]
    table.put([row(2, n=3) | {"w": True}])
    table.delete([row(1)])
    assert answer(engine, "SELECT id, n, w FROM t") == [(2, 3, True)]


def test_a_renamed_column_keeps_its_values_in_every_place(create: Any, root: Path, open_engine: Open):
    table = create(row(1, n=1))
    flushed(table, row(2, n=2))
    table.put([row(3, n=3)])
    engine = open_engine(root)
    assert answer(engine, "SELECT n FROM t") == [(1,), (2,), (3,)]
    table.dataset().alter_columns({"path": "n", "name": "m"})
    assert answer(engine, "SELECT id FROM t WHERE m = id") == [(1,), (2,), (3,)]
    assert answer(engine, "SELECT m FROM t WHERE id = 2") == [(2,)]
    assert answer(engine, "SELECT m FROM t WHERE id = 3") == [(3,)]


def test_columns_that_swap_their_names_keep_their_values(create: Any, root: Path, open_engine: Open):
    table = create({"id": 1, "a": 1, "b": 2}, schema=SWAPPED)
    flushed(table, {"id": 2, "a": 1, "b": 2})
    table.put([{"id": 3, "a": 1, "b": 2}])
    engine = open_engine(root)
    assert answer(engine, "SELECT id, a, b FROM t") == [(1, 1, 2), (2, 1, 2), (3, 1, 2)]
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        table.dataset().alter_columns({"path": old, "name": new})
    assert answer(engine, "SELECT id, a, b FROM t") == [(1, 2, 1), (2, 2, 1), (3, 2, 1)]
    assert answer(engine, "SELECT id FROM t WHERE a = 1") == []


def test_a_column_that_was_dropped_and_added_again_is_a_new_column(
    create: Any, root: Path, open_engine: Open
):
    table = create(row(1, n=1), row(2, n=2))
    flushed(table, row(2, n=20))
    table.put([row(3, n=30)])
    before = field_ids(table)["n"]
    engine = open_engine(root)
    assert answer(engine, "SELECT id, n FROM t") == [(1, 1), (2, 20), (3, 30)]
    table.dataset().drop_columns(["n"])
    table.dataset().add_columns(pa.schema([pa.field("n", pa.int32())]))
    assert field_ids(table)["n"] != before
    assert answer(engine, "SELECT id, n FROM t") == [(1, None), (2, None), (3, None)]
    assert answer(engine, "SELECT count(*) FROM t WHERE n IS NULL") == [(3,)]
    assert answer(engine, "SELECT n FROM t WHERE id = 2") == [(None,)]


def test_a_renamed_child_of_a_struct_keeps_its_values_in_every_place(
    create: Any, root: Path, open_engine: Open
):
    schema = pa.schema(
        [key_field("id", pa.int64()), pa.field("at", pa.struct([("x", pa.int32()), ("y", pa.int32())]))]
    )
    table = create({"id": 1, "at": {"x": 1, "y": 2}}, schema=schema)
    flushed(table, {"id": 2, "at": {"x": 1, "y": 2}})
    table.put([{"id": 3, "at": {"x": 1, "y": 2}}])
    engine = open_engine(root)
    assert answer(engine, "SELECT id FROM t WHERE at['x'] = 1") == [(1,), (2,), (3,)]
    table.dataset().alter_columns({"path": "at.x", "name": "z"})
    assert answer(engine, "SELECT id FROM t WHERE at['z'] = 1 AND at['y'] = 2") == [(1,), (2,), (3,)]
    assert rows_of(engine.execute("SELECT at FROM t WHERE id = 2").read_all()) == [({"z": 1, "y": 2},)]


def test_flushed_consistency_leaves_the_log_out(create: Any, root: Path, open_engine: Open):
    table = create(row(1, n=1))
    flushed(table, row(1, n=2))
    table.put([row(1, n=3), row(2, n=3)])
    engine = open_engine(root)
    assert answer(engine, "SELECT id, n FROM t", consistency="flushed") == [(1, 2)]
    assert answer(engine, "SELECT n FROM t WHERE id = 1", consistency="flushed") == [(2,)]
    assert answer(engine, "SELECT id, n FROM t") == [(1, 3), (2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.int8(), (1, 2)),
        (pa.int16(), (-1, 2)),
        (pa.uint32(), (1, 2**32 - 1)),
        (pa.uint64(), (1, 2**64 - 1)),
        (pa.bool_(), (False, True)),
        (pa.binary(), (b"", b"\xff")),
        (pa.large_string(), ("a", "é")),
    ],
    ids=str,
)
def test_every_key_type_that_lance_accepts_is_deduplicated(
    create: Any, root: Path, open_engine: Open, data_type: pa.DataType, values: tuple[Any, Any]
):
    schema = pa.schema([key_field("id", data_type), pa.field("n", pa.int32())])
    first, second = values
    table = create({"id": first, "n": 1}, {"id": second, "n": 2}, schema=schema)
    flushed(table, {"id": first, "n": 10})
    engine = open_engine(root)
    assert sorted(rows_of(engine.execute("SELECT n FROM t").read_all())) == [(2,), (10,)]
    table.delete([{"id": second}])
    parameters = [pa.scalar(value, data_type) for value in values]
    found = [
        rows_of(engine.execute("SELECT n FROM t WHERE id = $1", SessionSettings(), [value]).read_all())
        for value in parameters
    ]
    assert found == [[(10,)], []]


def test_a_column_that_was_dropped_and_added_again_forgets_its_values_in_the_log(
    create: Any, root: Path, open_engine: Open
):
    table = create(row(1, n=5, f=1.0))
    table.put([row(2, n=6, f=2.0)])
    engine = open_engine(root)
    assert answer(engine, "SELECT id, f FROM t") == [(1, 1.0), (2, 2.0)]
    assert answer(engine, "SELECT f FROM t WHERE id = 2") == [(2.0,)]
    table.dataset().drop_columns(["f"])
    table.dataset().add_columns(pa.schema([pa.field("f", pa.float64())]))
    assert answer(engine, "SELECT id, f FROM t") == [(1, None), (2, None)]
    assert answer(engine, "SELECT f FROM t WHERE id = 2") == [(None,)]


@pytest.mark.parametrize(
    "content", [None, b"", b"short", bytes(32)], ids=["gone", "empty", "cut short", "blank"]
)
def test_a_lookup_needs_no_filter_of_lance(
    create: Any, root: Path, open_engine: Open, content: bytes | None
) -> None:
    table = create(row(1, n=1), row(2, n=1))
    region = flushed(table, row(1, n=2))
    path = table.generation_directory(region, 1) / FILTER_FILE
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    engine = open_engine(root)
    found = [answer(engine, f"SELECT n FROM t WHERE id = {key}") for key in (1, 2, 3)]
    assert found == [[(2,)], [(1,)], []]


@pytest.mark.slow
def test_keys_of_different_regions_are_looked_up_in_one_snapshot(create: Any, root: Path, open_engine: Open):
    keys = range(8)
    table = create(*(row(key, n=0) for key in keys), layout=bucketed("id", 3, recorded=True))
    for step, some in ((1, keys), (2, (0, 1, 2, 3))):
        table.put([row(key, n=step) for key in some])
        table.close_writers()
    engine = open_engine(root)
    kept = {"max_staleness_ms": 3_600_000}
    everything = answer(engine, "SELECT id, n FROM t", **kept)
    assert everything == [(key, 2 if key < 4 else 1) for key in keys]
    assert [answer(engine, f"SELECT id, n FROM t WHERE id = {key}", **kept) for key in keys] == [
        [one] for one in everything
    ]
