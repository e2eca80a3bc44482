"""Parts read the snapshot that they were offered from, or say that it is gone; never another one."""

import datetime as dt
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.parts_table import SCHEMA, Written, carried, offered, rows_of, write
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import LsmTable, unpartitioned
from tests.support.processes.racing import Worker
from tests.support.processes.writer_process import WriterProcess


@pytest.mark.slow
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
    with pytest.raises(UnavailableError, match="recreated"):
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


class Overwriting(Worker):
    """Writes all keys with a new number again and again, merging and cleaning up behind it."""

    def __init__(self, table: LsmTable, rounds: int) -> None:
        super().__init__()
        self.table = table
        self.rounds = rounds

    def work(self) -> None:
        for number in range(1, self.rounds + 1):
            self.table.put([{"id": one, "n": number, "s": ""} for one in range(10)])
            if number % 7 == 0:
                (region,) = self.table.regions.values()
                flushed = manifests.read_manifest(self.table.path, region).flushed_generations
                merge_generations(self.table.path, region, flushed[-1].generation)
                clean_up_merged(self.table.path, region)


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
    writing.end()
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
                merged = manifests.read_merged_generations(table.path).get(region, 0)
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
