"""`lance_changes` with `mode => 'all'`: each acknowledged change once, in the order of its key."""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from memwal.errors import InvalidInputError, PreconditionError, UnsupportedError
from planner.access.rights import TableAccess
from planner.engine import QueryEngine
from planner.scans.settings import NO_SHORTCUTS, Shortcuts
from planner.tables.state.catalog import Catalog
from planner.tables.state.noted_tables import write_token
from tests.planner.scans.changes.test_calls import read
from tests.support import manifests
from tests.support.merging import clean_up_merged, merge_generations
from tests.support.principals import create_principal
from tests.support.tables import LsmTable, bucketed, key_field
from tests.support.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
KEYS = 12
Steps = list[tuple[int | None, int | None]]


@dataclass(frozen=True)
class Noted:
    """How SQL names a state, its rows, and how many changes came before; None where that can't be told."""

    name: str
    state: dict[int, int]
    told: int | None


@dataclass
class History:
    """A table, and every change that could be seen of it, in order."""

    table: LsmTable
    engine: QueryEngine
    state: dict[int, int]
    flushed: dict[int, int] = field(default_factory=dict)
    seen: list[tuple[int, int | None, int | None]] = field(default_factory=list)
    fresh: dict[int, tuple[str, int]] = field(default_factory=dict)
    noted: list[Noted] = field(default_factory=list)

    def _see(self, key: int, value: int | None) -> None:
        if self.state.get(key) != value:
            self.seen.append((key, self.state.get(key), value))
        if value is None:
            self.state.pop(key, None)
        else:
            self.state[key] = value

    def put(self, rows: list[tuple[int, int]]) -> None:
        for region, part, done in self.table.put([{"id": key, "v": value} for key, value in rows]):
            for row in part:
                self._see(row["id"], row["v"])
                self.fresh[row["id"]] = region, done.generation

    def delete(self, keys: list[int]) -> None:
        for region, part, done in self.table.delete([{"id": key} for key in keys]):
            for row in part:
                self._see(row["id"], None)
                self.fresh[row["id"]] = region, done.generation

    def flush(self) -> None:
        self.table.close_writers()
        self.flushed = dict(self.state)

    def merge(self, rng: random.Random) -> None:
        merged = manifests.read_merged_generations(self.table.path)
        for region in manifests.list_region_ids(self.table.path):
            listed = manifests.read_manifest(self.table.path, region).flushed_generations
            unmerged = [one.generation for one in listed if one.generation > merged.get(region, 0)]
            if unmerged:
                chosen = rng.choice(unmerged)
                merge_generations(self.table.path, region, chosen)
                for key, (of, generation) in list(self.fresh.items()):
                    if of == region and generation <= chosen:
                        del self.fresh[key]

    def write_base(self, rows: list[tuple[int, int]], gone: int) -> None:
        """Two commits of another writer: what is fresh hides them."""
        source = pa.Table.from_pylist([{"id": key, "v": value} for key, value in rows], schema=SCHEMA)
        upsert = self.table.dataset().merge_insert(["id"]).when_matched_update_all()
        upsert.when_not_matched_insert_all().execute(source)
        self.table.dataset().delete(f"id = {gone}")
        for key, value in (*rows, (gone, None)):
            if key not in self.fresh:
                self._see(key, value)
                if value is None:
                    self.flushed.pop(key, None)
                else:
                    self.flushed[key] = value

    def note(self) -> None:
        catalog = Catalog.open(str(self.table.path.parent))
        table = catalog.table("t")
        token = write_token(table.take_snapshot(table.assignments(table.base(), "strong").region_ids))
        catalog.close()
        self.noted.append(Noted(f"'{token}'", dict(self.state), len(self.seen)))

    def changes(self, since: str, until: str = "", where: str = "", **settings: Any) -> list[dict[str, Any]]:
        end = until and f", until => {until}"
        sql = f"SELECT * FROM lance_changes('t', since => {since}{end}, mode => 'all') {where}"
        found = self.engine.execute(f"{sql} ORDER BY _sequence", **settings).read_all().to_pylist()
        numbers = [one["_sequence"] for one in found]
        assert len(set(numbers)) == len(numbers)
        return found


def replay(state: dict[int, int], changes: list[dict[str, Any]]) -> tuple[dict[int, int], dict[int, Steps]]:
    """Apply changes, each of which must fit to the state before; return the state, and the steps of each key."""
    after, steps = dict(state), defaultdict[int, Steps](list)
    opened: int | None = None
    for one in changes:
        key, value, kind = one["id"], one["v"], one["_change"]
        assert (opened == key) == (kind == "update_after")
        before = after.get(key)
        opened = key if kind == "update_before" else None
        if kind in {"update_before", "delete"}:
            assert before == value, one
        if kind == "delete":
            steps[key].append((after.pop(key), None))
        elif kind == "update_after":
            assert before != value
            steps[key].append((before, value))
            after[key] = value
        elif kind == "insert":
            assert key not in after, one
            steps[key].append((None, value))
            after[key] = value
    return after, dict(steps)


@pytest.fixture
def history(root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]) -> History:
    base = dict.fromkeys(range(KEYS // 2), 0)
    rows = pa.Table.from_pylist([{"id": key, "v": value} for key, value in base.items()], schema=SCHEMA)
    made = LsmTable.create(root, "t", rows, bucketed("id", 2, recorded=True), writers)
    return History(made, open_engine(root), dict(base), dict(base))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_change_between_any_two_noted_states(history: History, seed: int) -> None:
    rng = random.Random(seed)
    history.note()
    for number in range(1, 10):
        for turn in range(2):
            keys = rng.choices(range(KEYS), k=5)  # Some of them twice in one entry.
            history.put([(key, rng.randrange(3)) for key in keys])
            history.delete(rng.sample(range(KEYS), 3))
            if turn:
                history.note()
        if number % 3 == 0:
            next(iter(history.table.writers.values())).abandon()
            history.table.writers.clear()
        if number % 4:
            history.flush()
            history.note()
        if number % 2:
            history.merge(rng)
            history.note()
        if number in {2, 5, 8}:
            history.write_base([(key, 100 + number) for key in rng.sample(range(KEYS), 4)], rng.randrange(KEYS))
            history.note()
        if number == 6:
            history.table.dataset().optimize.compact_files()
            history.note()
    for at, since in enumerate(history.noted):
        for until in [rng.choice(history.noted[at:]), Noted("", history.state, len(history.seen))]:
            found = history.changes(since.name, until.name)
            after, steps = replay(since.state, found)
            assert after == until.state, (since, until)
            expected = defaultdict(list)
            for key, before, value in history.seen[since.told : until.told]:
                expected[key].append((before, value))
            assert steps == dict(expected), (since, until)
        key = rng.randrange(KEYS)
        one = history.changes(since.name, where=f"WHERE id = {key}")
        assert one == [change for change in found if change["id"] == key]
