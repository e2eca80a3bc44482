"""`lance_changes` with `mode => 'all'`: each acknowledged change once, in the order of its key."""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.memwal.regions.wal import wal_entry_path
from lance_gateway.memwal.storage.files import base_manifest_paths
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.scans.changes import row_chains
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, NO_SHORTCUTS, Shortcuts
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.noted_tables import write_token
from tests.planner.scans.changes.test_calls import read
from tests.support.judging.principals import create_principal
from tests.support.judging.results import rows_of
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

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

    def changes(
        self, since: str, until: str = "", where: str = "", parts: tuple[int, int] | None = None
    ) -> list[dict[str, Any]]:
        end = until and f", until => {until}"
        if parts is not None:
            end += f", part => {parts[0]}, parts => {parts[1]}"
        sql = f"SELECT * FROM lance_changes('t', since => {since}{end}, mode => 'all') {where}"
        found = self.engine.execute(f"{sql} ORDER BY _sequence").read_all().to_pylist()
        numbers = [one["_sequence"] for one in found]
        assert len(set(numbers)) == len(numbers)
        return found


def replay(state: dict[int, int], changes: list[dict[str, Any]]) -> tuple[dict[int, int], dict[int, Steps]]:
    """Apply changes, each of which must fit to the state before; return the state, and each key's steps."""
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


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 12))])
def test_every_change_between_any_two_noted_states(history: History, seed: int) -> None:
    rng = random.Random(seed)
    history.note()
    for number in range(1, 8):
        for _ in range(2):
            keys = rng.choices(range(KEYS), k=5)  # Some of them twice in one entry.
            history.put([(key, rng.randrange(3)) for key in keys])
            history.delete(rng.sample(range(KEYS), 3))
        history.note()
        if number % 3 == 0:
            next(iter(history.table.writers.values())).abandon()
            history.table.writers.clear()
        if number % 4:
            history.flush()
        if number % 2:
            history.merge(rng)
            history.note()
        if number in {2, 5}:
            rows = [(key, 100 + number) for key in rng.sample(range(KEYS), 4)]
            history.write_base(rows, gone=rng.randrange(KEYS))
        if number == 6:
            history.table.dataset().optimize.compact_files()
            history.note()
    now = Noted("", history.state, len(history.seen))
    now_token = read(history.engine, "SELECT * FROM lance_position('t')")[0][0].join("''")
    for at, since in enumerate(history.noted):
        until = now if at % 2 else rng.choice(history.noted[at:])
        found = history.changes(since.name, until.name)
        after, steps = replay(since.state, found)
        assert after == until.state, (since, until)
        expected = defaultdict(list)
        for key, before, value in history.seen[since.told : until.told]:
            expected[key].append((before, value))
        assert steps == dict(expected), (since, until)
        if at % 4 == 0:
            divided = [history.changes(since.name, now_token, parts=(part, 3)) for part in (1, 2, 3)]
            whole = history.changes(since.name, now_token)
            assert sorted(chain.from_iterable(divided), key=itemgetter("_sequence")) == whole
        if at % 4 == 1:
            key = rng.randrange(KEYS)
            one = history.changes(since.name, where=f"WHERE id = {key}")
            assert one == [change for change in found if change["id"] == key]
    # Of versions it is not known here what was flushed: they lead to the newest state all the same.
    for version in range(2, history.table.dataset().version, 3):
        shown = history.engine.execute(f"SELECT id, v FROM t FOR VERSION AS OF {version}").read_all()
        state = {row["id"]: row["v"] for row in shown.to_pylist()}
        assert replay(state, history.changes(str(version)))[0] == history.state, version


def test_entries_of_logs_are_kept_once(
    tmp_path: Path, open_engine: Callable[[Path], QueryEngine], writers: WriterProcess
) -> None:
    rows = pa.Table.from_pylist([{"id": 0, "v": 0}], schema=SCHEMA)
    table = LsmTable.create(tmp_path, "t", rows, bucketed("id", 1, recorded=True), writers)
    engine = open_engine(tmp_path)
    for value in range(1, 6):
        table.put([{"id": value, "v": value}])
        (token,) = read(engine, "SELECT * FROM lance_position('t')")[0]
        told = read(
            engine, f"SELECT id FROM lance_changes('t', since => 2, until => '{token}', mode => 'all')"
        )
        assert [key for (key,) in told] == list(range(1, value + 1))
    kept = [(name.region_id, name.position) for name in engine.catalog.cache.take_used() if is_entry(name)]
    assert len(kept) == len(set(kept)) >= 5


def is_entry(name: object) -> bool:
    """Whether a key of the cache is that of an entry of a log."""
    return hasattr(name, "position") and hasattr(name, "region_id")


TOLD = "SELECT {} FROM lance_changes('t', since => {}, mode => 'all') {} ORDER BY _sequence"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> LsmTable:
    """Rows 0 to 3 at version 2; then 1 changes twice, 8 comes and goes, and 2 is deleted past the log."""
    schema = SCHEMA.append(pa.field("tenant", pa.string()))
    rows = pa.Table.from_pylist([{"id": key, "v": 0, "tenant": "a"} for key in range(4)], schema=schema)
    root = tmp_path_factory.mktemp("lake")
    table = LsmTable.create(root, "t", rows, bucketed("id", 2, recorded=True), shared_writers)
    table.put([{"id": 1, "v": 1, "tenant": "b"}, {"id": 8, "v": 8, "tenant": "b"}])
    table.put([{"id": 1, "v": 2, "tenant": "a"}, {"id": 3, "v": 0, "tenant": "a"}])
    table.close_writers()
    for region in manifests.list_region_ids(table.path):
        merge_generations(table.path, region, 1)
    table.delete([{"id": 8}])
    table.dataset().delete("id = 2")
    return table


@pytest.fixture
def engine(lake: LsmTable, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    return open_engine(lake.path.parent)


class TestOneTable:
    @pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, NO_SHORTCUTS])
    def test_what_came_and_went(self, engine: QueryEngine, shortcuts: Shortcuts) -> None:
        sql = TOLD.format("id, v, tenant, _change", 2, "")
        settings = SessionSettings(shortcuts=shortcuts)
        assert rows_of(engine.prepare(sql, settings).execute().read_all()) == [
            (1, 0, "a", "update_before"),
            (1, 1, "b", "update_after"),
            (8, 8, "b", "insert"),
            (1, 1, "b", "update_before"),
            (1, 2, "a", "update_after"),
            (8, 8, "b", "delete"),
            (2, 0, "a", "delete"),
        ]  # Of 3 nothing: it was written as it was.

    def test_when_and_to_where(self, engine: QueryEngine) -> None:
        sql = TOLD.format("_changed_at, _position, _sequence", 2, "")
        times, tokens, numbers = zip(*rows_of(engine.execute(sql).read_all()), strict=True)
        assert list(times) == sorted(times)
        assert list(numbers) == sorted(set(numbers))
        now = datetime.now(UTC).replace(tzinfo=None)
        assert all(now - timedelta(hours=1) < one < now + timedelta(hours=1) for one in times)
        (token,) = set(tokens)
        assert read(engine, TOLD.format("*", repr(token), "")) == []
        counted = f"SELECT count(*) FROM lance_changes('t', since => 2, until => '{token}', mode => 'all')"
        assert read(engine, counted) == [(7,)]
        exchanged = f"SELECT * FROM lance_changes('t', since => '{token}', until => 2, mode => 'all')"
        with pytest.raises(InvalidInputError, match="exchange them"):
            read(engine, exchanged)

    def test_who_sees_what(self, engine: QueryEngine) -> None:
        sql = TOLD.format("id, v, _change", 2, "WHERE id < 8")
        of_b = create_principal(t=TableAccess(row_filter="tenant = 'b'"))
        assert read(engine, sql, of_b) == [(1, 1, "delete"), (1, 1, "insert")]
        masked = create_principal(t=TableAccess(masks={"v": "0"}, hidden_columns=frozenset({"tenant"})))
        assert read(engine, sql, masked) == [(2, 0, "delete")]

    def test_conditions_are_those_on_changes(self, engine: QueryEngine) -> None:
        assert read(engine, TOLD.format("v, _change", 2, "WHERE id = 8")) == [(8, "delete"), (8, "insert")]
        assert read(engine, TOLD.format("id, _change", 2, "WHERE v = 2")) == [(1, "update_after")]
        plan = (
            engine.execute("EXPLAIN " + TOLD.format("*", 2, "WHERE id = 8"))
            .read_all()
            .column("plan")[-1]
            .as_py()
        )
        lines = [one for one in plan.splitlines() if "filter=id = 8" in one]
        assert ["before" in one for one in lines] == [
            True,
            False,
        ]  # Of pairs those before, and inserted ones.
        joined = "SELECT count(*) FROM lance_changes('t', since => 2, mode => 'all') c JOIN t ON t.id = c.id"
        assert read(engine, joined) == [(4,)]


def test_columns_are_those_of_the_newer_state(root: Path, open_engine: Callable[[Path], QueryEngine]) -> None:
    """A table without MemWAL: each version is told by itself."""
    rows = pa.Table.from_pylist([{"id": 1, "v": 1}, {"id": 2, "v": 2}], schema=SCHEMA)
    lance.write_dataset(rows, root / "t.lance").update({"v": "7"}, "id = 1")
    dataset = lance.dataset(root / "t.lance")
    dataset.alter_columns({"path": "v", "name": "value"})
    dataset.add_columns({"doubled": "value * 2"})
    dataset.update({"value": "8"}, "id = 1")
    engine = open_engine(root)
    assert rows_of(
        engine.execute(TOLD.format("id, value, doubled, _change", 1, "WHERE id = 1")).read_all()
    ) == [
        (1, 1, None, "update_before"),
        (1, 7, None, "update_after"),
        (1, 7, None, "update_before"),
        (1, 7, 14, "update_after"),
        (1, 7, 14, "update_before"),
        (1, 8, 14, "update_after"),
    ]
    dataset = lance.dataset(root / "t.lance")
    dataset.add_columns({"_sequence": "1"})
    with pytest.raises(InvalidInputError, match="has a column '_sequence'"):
        read(engine, TOLD.format("*", 1, ""))
    dataset = lance.dataset(root / "t.lance")
    dataset.drop_columns(["_sequence"])
    dataset.tags.create("first", 1)
    dataset.cleanup_old_versions(retain_versions=2, error_if_tagged_old_versions=False)
    with pytest.raises(
        PreconditionError, match=r"version 2 was removed\).* left since version 6, .*since => 6"
    ):
        read(open_engine(root), TOLD.format("*", "'first'", ""))


def test_versions_outside_of_the_states_are_not_read(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    """They may be removed at any moment."""
    dataset = lance.write_dataset(pa.Table.from_pylist([{"id": 1, "v": 1}], schema=SCHEMA), root / "t.lance")
    for value in ("2", "3", "4"):
        dataset.update({"v": value})
    (oldest,) = (path for name in base_manifest_paths(1) if (path := root / "t.lance" / name).exists())
    oldest.write_bytes(b"damaged")
    engine = open_engine(root)
    assert read(engine, TOLD.format("v, _change", 3, "")) == [(3, "update_before"), (4, "update_after")]


def test_compaction_below_an_index_changes_nothing(history: History) -> None:
    """Lance can't read its record of such a commit."""
    dataset = history.table.dataset()
    dataset.create_scalar_index("v", "BTREE")
    history.table.dataset().insert(pa.Table.from_pylist([{"id": 40, "v": 1}], schema=SCHEMA))
    history.table.dataset().optimize.optimize_indices()
    history.table.dataset().optimize.compact_files()
    (told,) = history.changes("2")
    assert (told["id"], told["_change"]) == (40, "insert")
    versions = read(history.engine, "SELECT version, operation FROM system.versions ORDER BY version")
    assert versions[-1][1] is None


def test_more_changes_than_fit_are_refused(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    history.put([(1, 1)])
    monkeypatch.setattr(row_chains, "MOST_BYTES", 100)
    with pytest.raises(InvalidInputError, match="choose states that are nearer to one another"):
        history.changes("2")


def test_what_was_merged_and_cleaned_is_refused(history: History) -> None:
    history.note()
    history.put([(key, 1) for key in range(KEYS)])
    history.flush()
    for region in manifests.list_region_ids(history.table.path):
        merge_generations(history.table.path, region, 1)
    history.put([(key, 2) for key in range(KEYS)])
    for region in manifests.list_region_ids(history.table.path):
        clean_up_merged(history.table.path, region)
    (since,) = history.noted
    assert len(history.changes(since.name)) == 2 * KEYS // 2 + KEYS // 2 + 2 * KEYS
    for region in manifests.list_region_ids(history.table.path):
        (history.table.path / wal_entry_path(region, 1)).unlink()
    merged = history.table.dataset().version
    other = QueryEngine(Catalog.open(str(history.table.path.parent)))
    with pytest.raises(PreconditionError, match=rf"log entry 1 of region .* left since version {merged}"):
        read(other, TOLD.format("*", since.name, ""))
    assert len(read(other, TOLD.format("*", merged, ""))) == 2 * KEYS
    other.close()
