"""A result in parts: disjoint, complete, the same wherever they are read."""

import itertools
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from tests.planner.parts_table import SCHEMA, carried, offered, rows_of, write
from tests.support.lake.tables import Layout, LsmTable, bucketed, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

LAYOUTS = [unpartitioned(("id",), 1), unpartitioned(("id",), 3), bucketed("id", 4, recorded=True)]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_the_parts_together_are_the_result(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine], layout: Layout
) -> None:
    written = write(root, writers, layout)
    engine, elsewhere = open_engine(root), open_engine(root)
    cases = {
        "SELECT * FROM t": lambda _: True,
        "SELECT id, n, s FROM t WHERE n > 4": lambda row: row[1] > 4,
        "SELECT id, n, s FROM t WHERE id >= 10 AND s <> 'row 12'": lambda row: row[0] >= 10 and row[0] != 12,
    }
    for (sql, keep), count in zip(itertools.cycle(cases.items()), (2, 3, 5, 4, 7, 10), strict=False):
        offer = offered(engine.prepare(sql), count)
        read = [rows_of(elsewhere.prepare(sql).execute_part(carried(part))) for part in offer.parts]
        assert sorted(row for part in read for row in part) == written.expected(keep), (sql, count)
        here = [
            rows_of(engine.prepare(sql).execute_part(part, snapshot=offer.snapshot)) for part in offer.parts
        ]
        assert here == read, (sql, count)
    written.table.close_writers()


def test_no_part_is_offered_that_has_nothing_to_read(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    base = pa.Table.from_pylist([{"id": one, "n": 0, "s": ""} for one in range(3)], schema=SCHEMA)
    lance.write_dataset(base, root / "small.lance")
    lance.write_dataset(base.slice(0, 0), root / "empty.lance")
    engine = open_engine(root)
    assert len(offered(engine.prepare("SELECT * FROM small"), 8).parts) == 1
    (only,) = offered(engine.prepare("SELECT * FROM empty"), 8).parts
    assert rows_of(engine.prepare("SELECT * FROM empty").execute_part(only)) == []


@pytest.mark.slow
def test_a_large_fragment_is_divided_by_rows(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    count = 300_000
    rows = pa.table({"id": range(count), "n": [one % 7 for one in range(count)]})
    schema = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32())])
    table = LsmTable.create(root, "t", rows.cast(schema), unpartitioned(("id",), 1), writers)
    table.dataset().delete("id % 1000 = 5")
    table.put([{"id": one, "n": -1} for one in (0, 1, 150_000, 299_999, 400_000)])
    table.delete([{"id": 70_000}])
    engine = open_engine(root)
    alive = {one for one in range(count) if one % 1000 != 5 and one != 70_000} | {400_000}
    for sql, keep in {
        "SELECT id FROM t": lambda _: True,
        "SELECT id FROM t WHERE n >= 0": lambda one: one not in {0, 1, 150_000, 299_999, 400_000},
    }.items():
        query = engine.prepare(sql)
        offer = offered(query, 4)
        sizes = []
        ids: list[int] = []
        for part in offer.parts:
            read = query.execute_part(part, snapshot=offer.snapshot).read_all().column(0).to_pylist()
            sizes.append(len(read))
            ids += read
        assert len(sizes) == 4
        assert max(sizes) < 2 * min(sizes)
        assert sorted(ids) == sorted(one for one in alive if keep(one))
    table.close_writers()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t",
        "SELECT * FROM t ORDER BY id",
        "SELECT * FROM t LIMIT 5",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.n",
        "SELECT id + 1 FROM t",
        "SELECT * FROM t WHERE id = 5",
        "SELECT * FROM t WHERE id > random()",
        "SELECT 1",
        "EXPLAIN SELECT * FROM t",
        "SHOW TABLES",
    ],
)
def test_what_is_more_than_a_scan_is_not_divided(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine], sql: str
) -> None:
    base = pa.Table.from_pylist([{"id": one, "n": 0, "s": ""} for one in range(3)], schema=SCHEMA)
    LsmTable.create(root, "t", base, unpartitioned(("id",), 1), writers)
    assert open_engine(root).prepare(sql).parts(4) is None


@pytest.mark.slow
def test_parameters_are_those_of_the_reader(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    written = write(root, writers, bucketed("id", 2, recorded=True))
    query = open_engine(root).prepare("SELECT id, n, s FROM t WHERE n >= $1 AND s <> $2")
    values = (pa.scalar(5), pa.scalar("row 40"))
    offer = offered(query, 3, *values)
    read = [row for part in offer.parts for row in rows_of(query.execute_part(part, values))]
    assert sorted(read) == written.expected(lambda row: row[1] >= 5 and row[0] != 40)
    written.table.close_writers()


def test_the_number_of_rows_is_told_where_it_is_known(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    base = pa.Table.from_pylist([{"id": one, "n": one, "s": ""} for one in range(30)], schema=SCHEMA)
    table = LsmTable.create(root, "t", base, unpartitioned(("id",), 1), writers)
    table.dataset().delete("id < 5")
    engine = open_engine(root)
    assert offered(engine.prepare("SELECT id FROM t"), 2).rows == 25
    assert offered(engine.prepare("SELECT id FROM t WHERE n > 3"), 2).rows is None
    table.put([{"id": 7, "n": 1, "s": ""}])
    assert offered(engine.prepare("SELECT id FROM t"), 2).rows is None
    table.close_writers()
