"""The first statement over many small generations reads each of them once."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.execnodes.rows.row_mask import OFFSET_MASK
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources import generations
from lance_gateway.planner.tables.sources.generations import GenerationDataset
from lance_gateway.planner.tables.sources.read_together import TogetherReader
from lance_gateway.planner.tables.visibility import key_join, visibility
from lance_gateway.planner.tables.visibility.key_join import KeysAhead
from tests.support.judging.results import rows_of
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
GENERATIONS = 9
TOTALS = "SELECT count(*) AS n, sum(v) AS v FROM t"


@pytest.fixture(scope="module")
def rows() -> dict[int, int]:
    """Key -> value of the newest rows."""
    return {}


@pytest.fixture(scope="module")
def table(
    tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess, rows: dict[int, int]
) -> LsmTable:
    """A table with keys that repeat within generations and between them, and tombstones."""
    root = tmp_path_factory.mktemp("first_touch")
    rows |= dict.fromkeys(range(40), 0)
    start = pa.table([range(40), [0] * 40], schema=SCHEMA)
    made = LsmTable.create(root, "t", start, bucketed("id", 1, recorded=True), shared_writers)
    for step in range(1, GENERATIONS + 1):
        for value in (step, 100 + step):
            new = dict.fromkeys((step, step + 1, 50 + step), value)
            made.put([{"id": key, "v": one} for key, one in new.items()])
            rows |= new
        made.delete([{"id": 20 + step}])
        rows.pop(20 + step)
        made.close_writers()
    return made


@pytest.fixture
def engine(table: LsmTable, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    return open_engine(table.path.parent)


@pytest.fixture
def opened(engine: QueryEngine) -> tuple[Any, tuple[GenerationDataset, ...]]:
    """The base table and its generations."""
    known = engine.catalog.table("t")
    base = known.base()
    snapshot = known.take_snapshot(known.assignments(base, "strong").region_ids)
    assert len(snapshot.generations) == GENERATIONS
    return base, snapshot.generations


def test_keys_and_columns_are_read_in_one_scan(
    engine: QueryEngine, rows: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[list[str]] = []
    scan = TogetherReader._scan

    def note(self: TogetherReader, fragments: Any, columns: list[str]) -> Iterator[pa.Table]:
        scanned.append(list(columns))
        return scan(self, fragments, columns)

    monkeypatch.setattr(TogetherReader, "_scan", note)
    found = engine.execute(TOTALS).read_all()
    assert rows_of(found) == [(len(rows), sum(rows.values()))]
    assert scanned == [["v", "id", "_tombstone"]]
    assert sorted(rows_of(engine.execute("SELECT id, v FROM t").read_all())) == sorted(rows.items())


@pytest.mark.parametrize("ahead_bytes", [1, 1 << 20], ids=["a part is read ahead", "all is read ahead"])
@pytest.mark.parametrize("is_busy", [False, True], ids=["at once", "not in time"])
def test_answers_stay_the_same_whatever_is_kept(
    engine: QueryEngine,
    rows: dict[int, int],
    monkeypatch: pytest.MonkeyPatch,
    ahead_bytes: int,
    *,
    is_busy: bool,
) -> None:
    monkeypatch.setattr(key_join, "_AHEAD_BYTES", ahead_bytes)
    if is_busy:
        monkeypatch.setattr(visibility, "KeysAhead", lambda base, _: KeysAhead(base, NeverBegins()))
    statements = {
        TOTALS: [(len(rows), sum(rows.values()))],
        "SELECT id, v FROM t": sorted(rows.items()),
        "SELECT id FROM t WHERE v > 100": sorted((key,) for key, value in rows.items() if value > 100),
        "SELECT v FROM t WHERE v < 0": [],
    }
    for sql in [*statements] * 4:
        assert sorted(rows_of(engine.execute(sql).read_all())) == statements[sql]


class NeverBegins(Executor):
    """Accepts tasks, and begins none."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        """Return a task that waits."""
        return Future()


@pytest.mark.parametrize("damage", ["none", "gone", "other rows"])
def test_deleted_rows_are_those_of_lance(
    opened: tuple[Any, tuple[GenerationDataset, ...]], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    base, found = opened
    if damage == "gone":
        monkeypatch.setattr(type(base.storage), "read", refuse)
    elif damage == "other rows":
        monkeypatch.setattr(generations, "Bitmap", NoRows)
    for generation in found:
        (fragment,) = generation.source(base).fragments.all
        assert fragment.deletions is not None, "a key repeats in each generation"
        live = generations._find_live_offsets(base, generation, fragment)
        addresses = generation.dataset.scanner(columns=[], with_row_address=True).to_table().column(0)
        assert live.tolist() == (addresses.to_numpy() & np.uint64(OFFSET_MASK)).tolist()
        deleted = generations._read_deletion_file(base, generation, fragment)
        assert (deleted is None) == (damage != "none")


def refuse(*_: object) -> bytes:
    raise FileNotFoundError("a deletion file")


class NoRows:
    """Reads any deletion file as an empty one."""

    @staticmethod
    def _from_bytes(_: bytes) -> list[int]:
        return []


def test_a_generation_that_is_gone_is_named(engine: QueryEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = lance.dataset
    monkeypatch.setattr(lance, "dataset", lambda uri, **options: _open(opening, uri, options))
    with pytest.raises(generations.GenerationVanishedError, match=r"flushed generation .*_gen_5 is gone"):
        engine.execute(TOTALS).read_all()


def _open(opening: Callable[..., Any], uri: str, options: dict[str, Any]) -> Any:
    if uri.endswith("_gen_5"):
        raise ValueError(f"Dataset at path {uri} was not found")
    return opening(uri, **options)
