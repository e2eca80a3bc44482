"""`lance_changes` between two states: applied to the older one, the changes give the newer one."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from tests.support.lake import manifests
from tests.support.lake.merging import merge_generations
from tests.support.lake.moments import write_moment
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64()), pa.field("s", pa.string())])
KEYS = 30
Row = tuple[Any, ...]
State = dict[int, Row]


def apply(state: State, changes: list[dict[str, Any]], columns: list[str]) -> State:
    """Apply changes to a state; each must fit to what it changes."""
    after = dict(state)
    pairs: dict[int, list[str]] = {}
    for change in changes:
        key, row = change["id"], tuple(change[name] for name in columns)
        pairs.setdefault(key, []).append(change["_change"])
        if change["_change"] in {"update_before", "delete"}:
            assert state[key] == row, change
        if change["_change"] == "delete":
            del after[key]
        elif change["_change"] == "insert":
            assert key not in state, change
            after[key] = row
        elif change["_change"] == "update_after":
            assert state[key] != row, change
            after[key] = row
    for kinds in pairs.values():
        assert sorted(kinds) in (["delete"], ["insert"], ["update_after", "update_before"])
    return after


@dataclass
class History:
    """A table, and what was noted of it: how SQL names each state, and its rows."""

    table: LsmTable
    engine: QueryEngine
    state: State
    flushed: State
    noted: list[tuple[str, State]] = field(default_factory=list)
    token: str = ""
    version: int = 0

    def put(self, keys: list[int], value: int) -> None:
        self.table.put({"id": key, "v": value, "s": f"s{value}"} for key in keys)
        self.state |= {key: (key, value, f"s{value}") for key in keys}

    def delete(self, keys: list[int]) -> None:
        self.table.delete({"id": key} for key in keys)
        for key in keys:
            self.state.pop(key, None)

    def flush(self) -> None:
        self.table.close_writers()
        self.flushed = dict(self.state)

    def merge(self, rng: random.Random) -> None:
        merged = manifests.read_merged_generations(self.table.path)
        for region in manifests.list_region_ids(self.table.path):
            listed = manifests.read_manifest(self.table.path, region).flushed_generations
            unmerged = [one.generation for one in listed if one.generation > merged.get(region, 0)]
            if unmerged:
                merge_generations(self.table.path, region, rng.choice(unmerged))

    def write_base(self, key: int, value: int) -> None:
        """An upsert of another writer of Lance's, below all that is fresh."""
        rows = pa.Table.from_pylist([{"id": key, "v": value, "s": "base"}], schema=SCHEMA)
        upsert = self.table.dataset().merge_insert(["id"]).when_matched_update_all()
        upsert.when_not_matched_insert_all().execute(rows)

    def note(self) -> None:
        """Note the newest state by its token; a state without changes has the token of the last one."""
        changes = self.changes(self.token)
        assert len({change["_position"] for change in changes}) <= 1
        if changes:
            self.token = repr(changes[0]["_position"])
            self.noted.append((self.token, dict(self.state)))
        version = self.table.dataset().version
        if version > self.version:  # It was committed just now.
            self.noted.append((str(version), dict(self.flushed)))
            self.version = version
        self.noted.append((write_moment(self.table.path.parent), dict(self.state)))

    def changes(self, since: str, until: str | None = None, where: str = "") -> list[dict[str, Any]]:
        end = "" if until is None else f", until => {until}"
        sql = f"SELECT * FROM lance_changes('t', since => {since}{end}) {where}"
        return self.engine.execute(sql).read_all().to_pylist()


@pytest.fixture
def history(root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]) -> History:
    base = {key: (key, 0, "s0") for key in range(KEYS // 2)}
    rows = pa.Table.from_pylist([{"id": key, "v": 0, "s": "s0"} for key in base], schema=SCHEMA)
    made = LsmTable.create(root, "t", rows, bucketed("id", 2, recorded=True), writers)
    return History(made, open_engine(root), dict(base), dict(base))


@pytest.mark.slow
@pytest.mark.parametrize("seed", sample([1, 2], 1))
def test_changes_between_any_two_noted_states_lead_from_one_to_the_other(history: History, seed: int) -> None:
    rng = random.Random(seed)
    history.version = history.table.dataset().version
    history.token = str(history.version)
    for number in range(1, 9):
        history.put(rng.sample(range(KEYS), 5), number)
        history.delete(rng.sample(range(KEYS), 3))
        history.note()
        if number % 4:
            history.flush()
            history.note()
        if number % 2:
            history.merge(rng)
            history.note()
        if number == 4:
            history.table.dataset().optimize.compact_files()
            history.note()
    for at, (since, before) in enumerate(history.noted):
        for until, after in [rng.choice(history.noted[at:]), ("", history.state)]:
            changes = history.changes(since, until or None)
            assert apply(before, changes, ["id", "v", "s"]) == after, (since, until)
        key = rng.randrange(KEYS)
        changes = history.changes(since, None, f"WHERE id = {key}")
        assert apply({key: before[key]} if key in before else {}, changes, ["id", "v", "s"]).get(
            key
        ) == history.state.get(key)
