"""Unflushed rows: what is derived of them grows with them, and what this process wrote is not read again."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.writing import Changes
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.sources.snapshot import TableSnapshot
from lance_gateway.planner.tables.state import log_reader
from lance_gateway.planner.tables.state.snapshots import keep_last
from lance_gateway.planner.tables.state.table_state import TableState
from lance_gateway.planner.tables.visibility import visibility
from tests.support.judging.results import rows_of
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
COMPOSITE = pa.schema(
    [key_field("a", pa.string(), 1), key_field("b", pa.int32(), 2), pa.field("v", pa.int64())]
)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "indexed"), [("integer", False), ("integer", True), ("composite", False)])
def test_an_engine_that_followed_every_step_answers_like_one_that_sees_the_table_first(
    root: Path,
    writers: WriterProcess,
    open_engine: Callable[[Path], QueryEngine],
    kind: str,
    *,
    indexed: bool,
) -> None:
    def row(key: int, value: int) -> dict[str, Any]:
        head = {"id": key} if kind == "integer" else {"a": f"k{key % 3}", "b": key}
        return head | {"v": value}

    schema = SCHEMA if kind == "integer" else COMPOSITE
    start = pa.Table.from_pylist([row(key, 0) for key in range(20)], schema=schema)
    table = LsmTable.create(root, "t", start, unpartitioned(tuple(schema.names[:-1]), 2), writers)
    if indexed:
        table.dataset().create_scalar_index("id", "BTREE")
    follower, rng = open_engine(root), np.random.default_rng(5)
    expected = dict.fromkeys(range(20), 0)
    for step in range(1, 25):
        keys = rng.integers(0, 30, 3).tolist()
        table.put([row(key, step) for key in keys])
        expected |= dict.fromkeys(keys, step)
        table.delete([row(keys[0], 0)])
        expected.pop(keys[0], None)
        if step % 7 == 0:
            table.close_writers()
        if step % 14 == 0:
            for region in table.regions.values():
                merge_generations(table.path, region, 1)
        newcomer = open_engine(root) if step % 6 == 0 else follower
        for engine in {follower, newcomer}:
            found = engine.execute(f"SELECT {schema.names[-2]}, v FROM t").read_all()
            assert sorted(rows_of(found)) == sorted(expected.items())
            key = schema.names[-2]
            one = engine.execute(f"SELECT v FROM t WHERE {key} = {keys[1]}").read_all()
            assert rows_of(one) == ([(expected[keys[1]],)] if keys[1] in expected else [])


@pytest.fixture
def engine(root: Path, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    """Over a table of its own, with two regions."""
    dataset = lance.write_dataset(pa.table([[0, 1], [0, 0]], schema=SCHEMA), root / "t.lance")
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=2)
    return open_engine(root)


def write(engine: QueryEngine, **values: int) -> None:
    """Upsert rows: k5=7 is id 5 with v 7."""
    rows = pa.table([[int(key[1:]) for key in values], list(values.values())], schema=SCHEMA)
    engine.catalog.table("t").writer().write(Changes(upserts=rows))


def read(engine: QueryEngine, options: SessionSettings | None = None) -> dict[int, int]:
    found = engine.prepare("SELECT id, v FROM t", options or SessionSettings()).execute().read_all()
    rows = rows_of(found)
    assert len(dict(rows)) == len(rows)
    return dict(rows)


class TestOwnRows:
    def test_they_are_not_read_from_storage(
        self, engine: QueryEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(engine, k1=1, k2=2)
        assert read(engine) == {0: 0, 1: 1, 2: 2}

        def refused(*_: object, **__: object) -> Any:
            pytest.fail("storage was asked for what is in memory")

        monkeypatch.setattr(log_reader, "find_last_wal_position", refused)
        monkeypatch.setattr(log_reader, "read_wal_entry", refused)
        write(engine, k2=3, k4=4)
        assert read(engine) == {0: 0, 1: 1, 2: 3, 4: 4}

    def test_reading_makes_no_writer(self, engine: QueryEngine) -> None:
        assert read(engine) == {0: 0, 1: 0}
        assert engine.catalog.table("t").opened_writer is None

    @pytest.mark.slow
    def test_a_region_that_another_writer_took_over_is_read_from_storage(
        self, engine: QueryEngine, root: Path, open_engine: Callable[[Path], QueryEngine]
    ) -> None:
        write(engine, k1=1, k2=2)
        other = open_engine(root)
        write(other, k1=5, k3=6)
        assert read(engine) == read(other) == {0: 0, 1: 5, 2: 2, 3: 6}
        write(engine, k1=7)
        assert read(engine) == read(other) == {0: 0, 1: 7, 2: 2, 3: 6}

    @pytest.mark.slow
    def test_a_flush_neither_loses_nor_doubles_rows(self, engine: QueryEngine) -> None:
        last, failures = 60, []

        def ingest() -> None:
            try:
                for number in range(1, last + 1):
                    write(engine, **{f"k{number}": number, "k0": number})
                    if number % 15 == 0:
                        engine.catalog.table("t").writer().flush()
            except BaseException as error:  # noqa: BLE001 - the test raises it
                failures.append(error)

        thread = threading.Thread(target=ingest)
        thread.start()
        seen = 0
        while thread.is_alive():
            found = read(engine)
            assert found[0] >= seen
            seen = found[0]
            assert all(found.get(number, number) in {0, number} for number in range(2, seen))
            assert set(range(seen)) <= found.keys()
        thread.join()
        assert not failures
        assert read(engine) == {0: last} | {number: number for number in range(1, last + 1)}

    def test_a_session_that_wrote_does_not_read_a_snapshot_of_before(self, engine: QueryEngine) -> None:
        patient = SessionSettings(max_staleness_ms=3_600_000)
        assert read(engine, patient) == {0: 0, 1: 0}
        write(engine, k1=1)
        assert read(engine, patient) == {0: 0, 1: 1}

    def test_what_a_flushed_generation_supersedes_is_known_before_it_is_flushed(
        self, engine: QueryEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(engine, k0=1, k5=1)
        engine.catalog.table("t").writer().flush()
        assert read(engine) == {0: 1, 1: 0, 5: 1}
        write(engine, k0=2, k1=2, k5=2)
        assert read(engine) == {0: 2, 1: 2, 5: 2}
        write(engine, k1=3)  # of which no query has heard when it is flushed
        engine.catalog.table("t").writer().flush()

        def refused(*_: object, **__: object) -> Any:
            pytest.fail("keys were searched again")

        monkeypatch.setattr(visibility, "find_rows", refused)
        monkeypatch.setattr(visibility, "find_newest_in_layers", refused)
        monkeypatch.setattr(visibility, "find_newest", lambda layer: np.ones(len(layer.keys), np.bool_))
        assert read(engine) == {0: 2, 1: 3, 5: 2}

    def test_a_table_made_anew_has_none_of_them(self, engine: QueryEngine, root: Path) -> None:
        write(engine, k1=1)
        assert read(engine) == {0: 0, 1: 1}
        (root / "t.lance").rename(root / "old")
        dataset = lance.write_dataset(pa.table([[7], [7]], schema=SCHEMA), root / "t.lance")
        dataset.initialize_mem_wal(bucket_column="id", num_buckets=2)
        assert read(engine) == {7: 7}
        write(engine, k8=8)
        assert read(engine) == {7: 7, 8: 8}


class TestMonotonicReads:
    def test_an_older_snapshot_is_not_kept_over_a_newer_one(self, engine: QueryEngine) -> None:
        base = engine.catalog.table("t").base()
        known = TableState(base.place, base.session)
        older, newer = TableSnapshot(base, {}), TableSnapshot(base, {})
        for taken_at, taken in ((1.0, older), (2.0, newer), (1.0, older)):
            keep_last(known, "snapshot", taken_at, taken)
        assert known.last["snapshot"] == (2.0, newer)

    @pytest.mark.slow
    @pytest.mark.parametrize("consistency", ["snapshot", "flushed", "strong"])
    @pytest.mark.parametrize("max_staleness_ms", [0, 5])
    def test_a_later_read_never_shows_an_older_state(
        self,
        root: Path,
        writers: WriterProcess,
        open_engine: Callable[[Path], QueryEngine],
        consistency: Any,
        max_staleness_ms: int,
    ) -> None:
        start = pa.table([[0], [0]], schema=SCHEMA)
        table = LsmTable.create(root, "t", start, bucketed("id", 1, recorded=True), writers)
        engine = open_engine(root)
        options = SessionSettings(consistency=consistency, max_staleness_ms=max_staleness_ms)
        done, failures = threading.Event(), []

        def watch() -> None:
            seen = 0
            try:
                while not done.is_set():
                    value = read(engine, options)[0]
                    assert value >= seen, f"{value} after {seen}"
                    seen = value
            except BaseException as error:  # noqa: BLE001 - the test raises it
                failures.append(error)

        threads = [threading.Thread(target=watch) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(1, 6):
                table.put([{"id": 0, "v": number}])
                table.close_writers()
                merge_generations(table.path, table.region_of({"id": 0}), number)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert not failures
        assert read(engine, SessionSettings(consistency=consistency)) == {0: 5}
