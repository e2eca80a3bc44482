"""A result in parts: disjoint, complete, the same whenever and wherever they are read."""

import datetime as dt
import itertools
import random
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memwal.errors import InvalidInputError, NotFoundError, PreconditionError, UnavailableError
from planner.access import TableAccess
from planner.catalog import Catalog
from planner.engine import PreparedQuery, QueryEngine
from planner.parts import OfferedParts, ScanPart
from protos import snapshot_pb2
from tests.support import manifests
from tests.support.merging import clean_up_merged, merge_generations
from tests.support.tables import Layout, LsmTable, bucketed, key_field, unpartitioned
from tests.support.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32()), pa.field("s", pa.string())])
Rows = list[tuple[Any, ...]]


@dataclass
class Written:
    """A table, and what it must read as."""

    table: LsmTable
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def put(self, *ids: int, n: int) -> None:
        self.table.put([{"id": one, "n": n, "s": f"row {one}"} for one in ids])
        self.rows |= {one: (one, n, f"row {one}") for one in ids}

    def delete(self, *ids: int) -> None:
        self.table.delete([{"id": one} for one in ids])
        for one in ids:
            self.rows.pop(one, None)

    def expected(self, keep: Callable[[tuple[Any, ...]], bool] = lambda _: True) -> Rows:
        return sorted(row for row in self.rows.values() if keep(row))


def write(root: Path, writers: WriterProcess, layout: Layout, *, name: str = "t") -> Written:
    """A base of five fragments with deleted rows, generations with and without tombstones, and log tails."""
    base = pa.Table.from_pylist([{"id": one, "n": 0, "s": f"row {one}"} for one in range(100)], schema=SCHEMA)
    table = LsmTable.create(root, name, base.slice(0, 20), layout, writers, max_memtable_rows=20)
    for start in range(20, 100, 20):
        lance.write_dataset(base.slice(start, 20), table.path, mode="append")
    table.dataset().delete("id % 10 = 3")
    written = Written(table, {one: (one, 0, f"row {one}") for one in range(100) if one % 10 != 3})
    for number, first in enumerate(range(0, 60, 6), start=1):
        written.put(*range(first, first + 9), n=number)
        written.delete(first + 1)
    written.put(7, 3, 200, 201, n=99)
    written.delete(50, 200, 999)
    return written


def rows_of(reader: pa.RecordBatchReader) -> Rows:
    table = reader.read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def carried(part: ScanPart) -> ScanPart:
    """The part as another process receives it."""
    message = part.to_message().SerializeToString()
    return ScanPart.from_message(snapshot_pb2.ScanPart.FromString(message))


def offered(query: PreparedQuery, count: int, *parameters: pa.Scalar) -> OfferedParts:
    parts = query.parts(count, parameters)
    assert parts is not None
    return parts


LAYOUTS = [unpartitioned(("id",), 1), unpartitioned(("id",), 3), bucketed("id", 4, recorded=True)]


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
    for (sql, keep), count in zip(itertools.cycle(cases.items()), range(2, 11), strict=False):
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


def test_parts_read_the_snapshot_whatever_is_written_flushed_and_merged_meanwhile(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    written = write(root, writers, unpartitioned(("id",), 2))
    engine, elsewhere = open_engine(root), open_engine(root)
    query = engine.prepare("SELECT * FROM t")
    offer = offered(query, 5)
    expected = written.expected()
    first = [rows_of(elsewhere.prepare(query.sql).execute_part(carried(part))) for part in offer.parts]
    assert sorted(row for part in first for row in part) == expected
    for start in range(0, 100, 20):
        written.put(*range(start, start + 20, 2), n=1000)
    written.delete(1, 5, 7)
    for region in written.table.regions.values():
        flushed = manifests.read_manifest(written.table.path, region).flushed_generations
        merge_generations(written.table.path, region, max(one.generation for one in flushed))
    # Generations are still there: another process, which never saw the snapshot, reads the same.
    newcomer = open_engine(root)
    for part, rows in zip(offer.parts, first, strict=True):
        assert sorted(rows_of(newcomer.prepare(query.sql).execute_part(carried(part)))) == sorted(rows)
    for region in written.table.regions.values():
        clean_up_merged(written.table.path, region)
    late = open_engine(root)
    for part in offer.parts:
        with pytest.raises(UnavailableError, match="run the query again"):
            late.prepare(query.sql).execute_part(carried(part)).read_all()
    again = offered(late.prepare(query.sql), 5)
    read = [row for part in again.parts for row in rows_of(late.prepare(query.sql).execute_part(part))]
    assert sorted(read) == written.expected()
    written.table.close_writers()


def test_an_older_base_version_that_was_cleaned_up_is_said_to_be_gone(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    base = pa.Table.from_pylist([{"id": one, "n": 0, "s": ""} for one in range(30)], schema=SCHEMA)
    dataset = lance.write_dataset(base, root / "t.lance", max_rows_per_file=10)
    query = open_engine(root).prepare("SELECT * FROM t")
    offer = offered(query, 3)
    dataset.delete("id < 15")
    dataset.optimize.compact_files()
    dataset.cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    with pytest.raises(UnavailableError, match="run the query again"):
        open_engine(root).prepare(query.sql).execute_part(carried(offer.parts[0])).read_all()


def test_a_table_that_was_made_anew_is_not_taken_for_the_old_one(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    base = pa.Table.from_pylist([{"id": one, "n": 0, "s": ""} for one in range(30)], schema=SCHEMA)
    lance.write_dataset(base, root / "t.lance")
    offer = offered(open_engine(root).prepare("SELECT * FROM t"), 3)
    shutil.rmtree(root / "t.lance")
    lance.write_dataset(base.slice(5), root / "t.lance")
    with pytest.raises(UnavailableError, match="made anew"):
        open_engine(root).prepare("SELECT * FROM t").execute_part(carried(offer.parts[0]))


def test_an_altered_table_or_view_is_not_read_with_the_old_meaning(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    base = pa.Table.from_pylist([{"id": one, "n": one, "s": ""} for one in range(30)], schema=SCHEMA)
    lance.write_dataset(base, root / "t.lance", max_rows_per_file=10)
    (root / "v.view.sql").write_text("SELECT id, n FROM t WHERE n > 3")
    engine = open_engine(root)
    of_view = offered(engine.prepare("SELECT * FROM v"), 3)
    of_table = offered(engine.prepare("SELECT id FROM t"), 3)
    (root / "v.view.sql").write_text("SELECT id, n FROM t WHERE n > 9")
    with pytest.raises(UnavailableError, match="altered"):
        engine.prepare("SELECT * FROM v").execute_part(of_view.parts[0])
    lance.dataset(root / "t.lance").add_columns({"m": "n + 1"})
    with pytest.raises(UnavailableError, match="altered"):
        engine.prepare("SELECT id FROM t").execute_part(of_table.parts[0])


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda part: part.snapshot.regions[0].generations[0].__setattr__("path", "../../x"),
            "not a directory",
        ),
        (lambda part: part.snapshot.regions[0].__setattr__("region_id", b"../x"), "not a UUID"),
        (lambda part: part.snapshot.regions[0].wal_entries.add(first=1, count=1 << 40), "WAL entries"),
        (lambda part: part.snapshot.regions[0].generations.add(generation=1, path="x"), "must ascend"),
        (lambda part: part.__setattr__("number", 9), "part 9 of 3"),
        (lambda part: part.__setattr__("count", 1 << 30), "at most"),
        (lambda part: part.snapshot.__setattr__("base_version", 0), "version"),
    ],
)
def test_a_forged_description_is_refused(
    root: Path,
    writers: WriterProcess,
    open_engine: Callable[[Path], QueryEngine],
    change: Callable[[Any], None],
    words: str,
) -> None:
    written = write(root, writers, unpartitioned(("id",), 1))
    message = offered(open_engine(root).prepare("SELECT * FROM t"), 3).parts[0].to_message()
    change(message)
    with pytest.raises(InvalidInputError, match=words):
        ScanPart.from_message(message)
    written.table.close_writers()


def test_a_forged_tail_is_refused(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    """What is kept of it would be taken for what is kept of the whole tail, by everybody's queries."""
    written = write(root, writers, unpartitioned(("id",), 1))
    written.put(1, n=100)
    query = open_engine(root).prepare("SELECT * FROM t")
    part = offered(query, 2).parts[0]
    (region,) = part.snapshot.regions
    positions = region.wal_positions
    assert len(positions) >= 3
    for forged in ((positions[0], positions[-1]), (positions[-1], positions[0]), (positions[0], 1 << 60)):
        snapshot = replace(part.snapshot, regions=(replace(region, wal_positions=forged),))
        with pytest.raises(InvalidInputError, match="leaves out WAL entries between"):
            query.reopen(replace(part, snapshot=snapshot))
    written.table.close_writers()


@dataclass(frozen=True, eq=False)
class Rights:
    """What somebody may see of table t."""

    table: TableAccess | None
    user: str = "somebody"
    is_admin: bool = False

    def of(self, table: str) -> TableAccess | None:
        return self.table


def test_a_restricted_table_is_neither_divided_nor_read_in_parts(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    written = write(root, writers, bucketed("id", 4, recorded=True))
    engine = open_engine(root)
    sql = "SELECT id, n, s FROM t"
    part = offered(engine.prepare(sql), 4).parts[0]
    for access in (TableAccess(row_filter="n < 5"), TableAccess(masks={"s": "'hidden'"})):
        query = engine.prepare(sql, access=Rights(access))
        assert query.parts(4) is None
        with pytest.raises(PreconditionError, match="not read in parts"):
            query.execute_part(carried(part))
    with pytest.raises(NotFoundError):
        engine.prepare(sql, access=Rights(None))
    written.table.close_writers()


class Overwriting(threading.Thread):
    """Writes all keys with a new number again and again, merging and cleaning up behind it."""

    def __init__(self, table: LsmTable, rounds: int) -> None:
        super().__init__(daemon=True)
        self.table = table
        self.rounds = rounds
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for number in range(1, self.rounds + 1):
                self.table.put([{"id": one, "n": number, "s": ""} for one in range(10)])
                if number % 7 == 0:
                    (region,) = self.table.regions.values()
                    flushed = manifests.read_manifest(self.table.path, region).flushed_generations
                    merge_generations(self.table.path, region, flushed[-1].generation)
                    clean_up_merged(self.table.path, region)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error


@pytest.mark.slow
def test_parts_agree_while_the_table_is_written_merged_and_cleaned_up(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    base = pa.Table.from_pylist([{"id": one, "n": 0, "s": ""} for one in range(10)], schema=SCHEMA)
    layout = unpartitioned(("id",), 1)
    table = LsmTable.create(root, "t", base, layout, writers, max_memtable_rows=20)
    engines = [open_engine(root) for _ in range(2)]
    writing = Overwriting(table, rounds=40)
    writing.start()
    is_over = False
    while not is_over:
        is_over = not writing.is_alive()
        parts = offered(engines[0].prepare("SELECT * FROM t"), 3).parts
        try:
            read = [
                row
                for number, part in enumerate(parts)
                for row in rows_of(engines[number % 2].prepare("SELECT * FROM t").execute_part(carried(part)))
            ]
        except UnavailableError:
            assert not is_over
            continue  # merged and cleaned up since; never wrong
        assert sorted(row[0] for row in read) == list(range(10))
        assert len({row[1] for row in read}) == 1, "parts of several snapshots"
    writing.join()
    if writing.failure is not None:
        raise writing.failure
    table.close_writers()


@pytest.mark.slow
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@given(seed=st.integers(0, 10_000), count=st.integers(2, 8), regions=st.integers(1, 3))
def test_any_history_in_any_number_of_parts(
    tmp_path_factory: pytest.TempPathFactory,
    shared_writers: WriterProcess,
    seed: int,
    count: int,
    regions: int,
) -> None:
    root = tmp_path_factory.mktemp("root")
    chance = random.Random(seed)
    base = pa.Table.from_pylist(
        [{"id": one, "n": 0, "s": f"row {one}"} for one in range(chance.randrange(20))], schema=SCHEMA
    )
    layout = unpartitioned(("id",), regions)
    table = LsmTable.create(root, "t", base, layout, shared_writers, max_memtable_rows=chance.choice([6, 50]))
    written = Written(table, {one: (one, 0, f"row {one}") for one in range(base.num_rows)})
    engines = [QueryEngine(Catalog.open(str(root))) for _ in range(2)]
    for step in range(chance.randrange(1, 8)):
        ids = [chance.randrange(25) for _ in range(chance.randrange(1, 6))]
        if chance.random() < 0.7:
            written.put(*set(ids), n=step + 1)
        else:
            written.delete(*set(ids))
        if chance.random() < 0.3:
            for region in table.regions.values():
                flushed = manifests.read_manifest(table.path, region).flushed_generations
                merged = manifests.merged_generations(table.path).get(region, 0)
                if any(one.generation > merged for one in flushed):
                    merge_generations(table.path, region, flushed[-1].generation)
                    if chance.random() < 0.5:
                        clean_up_merged(table.path, region)
    limit = chance.randrange(4)
    sql = f"SELECT * FROM t WHERE n >= {limit}"
    offer = offered(engines[0].prepare(sql), count)
    read = [
        row
        for part in offer.parts
        for row in rows_of(chance.choice(engines).prepare(sql).execute_part(carried(part)))
    ]
    assert sorted(read) == written.expected(lambda row: row[1] >= limit)
    table.close_writers()
    for engine in engines:
        engine.close()
