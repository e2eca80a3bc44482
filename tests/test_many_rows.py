"""Tables of several fragments and many batches: masks, filters and addresses stay aligned."""

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from tests.support.judging.results import rows_of
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

ROWS = 200_000
FRAGMENT = 70_000
SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int64()), pa.field("s", pa.string())])


def rows(ids: np.ndarray, version: int) -> pa.Table:
    numbers = ids * 10 + version
    return pa.table([ids, numbers, pa.array([f"v{version}"] * len(ids))], schema=SCHEMA)


class Truth:
    """What every key's newest version is."""

    def __init__(self) -> None:
        self.versions = np.zeros(ROWS, np.int64)
        self.live = np.ones(ROWS, bool)

    def ids(self, condition: np.ndarray | None = None) -> np.ndarray:
        return np.flatnonzero(self.live if condition is None else self.live & condition)

    @property
    def numbers(self) -> np.ndarray:
        return np.arange(ROWS) * 10 + self.versions


def assert_reads_as(engine: QueryEngine, truth: Truth) -> None:
    def answer(sql: str) -> list[tuple[object, ...]]:
        return rows_of(engine.execute(sql).read_all())

    live, numbers = truth.ids(), truth.numbers
    assert answer("SELECT count(*), sum(n), min(id), max(id) FROM t") == [
        (len(live), int(numbers[live].sum()), int(live.min()), int(live.max()))
    ]
    assert answer("SELECT count(*) FROM t") == [(len(live),)]
    for version in range(4):
        fresh = truth.ids(truth.versions == version)
        assert answer(f"SELECT count(*), coalesce(sum(id), 0) FROM t WHERE s = 'v{version}'") == [
            (len(fresh), int(fresh.sum()))
        ]
    seventh = truth.ids(numbers % 7 == 0)
    assert answer("SELECT count(*), sum(n) FROM t WHERE n % 7 = 0") == [
        (len(seventh), int(numbers[seventh].sum()))
    ]
    window = truth.ids((numbers >= 650_000) & (numbers < 760_000))
    found = engine.execute("SELECT id, n FROM t WHERE n >= 650000 AND n < 760000 ORDER BY id").read_all()
    assert found["id"].to_numpy().tolist() == window.tolist()
    assert found["n"].to_numpy().tolist() == numbers[window].tolist()
    for key in (0, FRAGMENT - 1, FRAGMENT, 65_535, 65_536, ROWS - 1, *np.flatnonzero(~truth.live)[:3]):
        expected = [(int(numbers[key]), f"v{truth.versions[key]}")] if truth.live[key] else []
        assert answer(f"SELECT n, s FROM t WHERE id = {key}") == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", sample([{}, {"enable_stable_row_ids": True}, {"data_storage_version": "2.0"}], 1), ids=str
)
@pytest.mark.parametrize(
    ("indexed", "fragment"),
    [(False, 160_000), (True, FRAGMENT)],
    ids=["without index, divided by rows", "with index"],
)
def test_many_rows_in_fragments_generations_and_the_log(
    root: Path,
    writers: WriterProcess,
    open_engine: Callable[[Path], QueryEngine],
    options: dict[str, object],
    indexed: bool,
    fragment: int,
):
    random, truth = np.random.default_rng(1), Truth()
    order = random.permutation(ROWS)
    dataset = lance.write_dataset(rows(order, 0), root / "t.lance", max_rows_per_file=fragment, **options)
    dataset.initialize_mem_wal()
    if indexed:
        dataset.create_scalar_index("id", "BTREE")
    table = LsmTable(root / "t.lance", ("id",), unpartitioned(("id",), 1), writers)
    writer = writers.open(table.path, "6fd4b56d-1d0a-4e43-9d4c-3a3d52f1d0ab")
    engine = open_engine(root)
    assert_reads_as(engine, truth)

    for version in (1, 2, 3):
        changed = np.sort(random.choice(ROWS, 6_000, replace=False))
        gone = random.choice(ROWS, 500, replace=False)
        writer.put(rows(changed, version))
        writer.delete(pa.table({"id": gone}))
        truth.versions[changed], truth.live[changed] = version, True
        truth.live[gone] = False
        if version == 2:
            assert_reads_as(engine, truth)
        if version < 3:
            writer.close()
            writer = writers.open(table.path, writer.region)
        assert_reads_as(engine, truth)

    merge_generations(table.path, writer.region, up_to=1)
    assert_reads_as(engine, truth)
    table.dataset().optimize.compact_files()
    assert_reads_as(engine, truth)
    merge_generations(table.path, writer.region, up_to=2)
    assert_reads_as(engine, truth)
    writer.abandon()


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 100, 3_000])
def test_long_lists_of_keys(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine], count: int
):
    """Some keys are in the base, some fresh, some deleted, some nowhere, and some are named twice."""
    random, truth = np.random.default_rng(2), Truth()
    dataset = lance.write_dataset(rows(np.arange(ROWS), 0), root / "t.lance", max_rows_per_file=FRAGMENT)
    dataset.initialize_mem_wal()
    table = LsmTable(root / "t.lance", ("id",), unpartitioned(("id",), 1), writers)
    writer = writers.open(table.path, "6fd4b56d-1d0a-4e43-9d4c-3a3d52f1d0ab")
    changed, gone = random.choice(ROWS, 5_000, replace=False), random.choice(ROWS, 5_000, replace=False)
    writer.put(rows(changed, 1))
    writer.close()
    writer = writers.open(table.path, writer.region)
    writer.delete(pa.table({"id": gone}))
    truth.versions[changed] = 1
    truth.live[gone] = False
    asked = random.choice(ROWS, count, replace=False)
    keys = [*asked.tolist(), int(asked[0]), ROWS + 5, int(changed[0]), int(gone[0])]
    listed = ", ".join(map(str, keys))
    found = open_engine(root).execute(f"SELECT id, n FROM t WHERE id IN ({listed}) ORDER BY id").read_all()
    expected = sorted({key for key in keys if key < ROWS and truth.live[key]})
    assert found["id"].to_pylist() == expected
    assert found["n"].to_pylist() == truth.numbers[expected].tolist()
    writer.abandon()
