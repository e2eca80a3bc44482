"""Histories of writes, flushes and deletes: who followed each step and who comes late see the same."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import CorruptDataError
from lance_gateway.memwal.writing import Changes
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.generations import GenerationVanishedError, open_generation
from lance_gateway.planner.tables.sources.snapshot import TableSnapshot
from lance_gateway.planner.tables.visibility import key_search, visibility
from lance_gateway.planner.tables.visibility.newest import find_newest
from lance_gateway.planner.tables.visibility.visibility import SnapshotMasks, Visibility
from tests.support.judging.results import rows_of
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

INTEGERS = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
PAIRS = pa.schema([key_field("a", pa.string(), 1), key_field("b", pa.int32(), 2), pa.field("v", pa.int64())])
TEXTS = pa.schema([key_field("id", pa.string()), pa.field("v", pa.int64())])
KINDS = {
    "integers": (INTEGERS, lambda key: {"id": key}),
    "pairs": (PAIRS, lambda key: {"a": f"k{key % 3}", "b": key}),
    "texts": (TEXTS, lambda key: {"id": f"t{key:02}"}),
}


class Follower:
    """A table that one engine writes, what its rows must be, and engines that read it."""

    def __init__(
        self, root: Path, kind: str, open_engine: Callable[[Path], QueryEngine], buckets: int
    ) -> None:
        self.schema, self.key = KINDS[kind]
        self.expected = dict.fromkeys(range(20), 0)
        base = self.rows(self.expected)
        # Several fragments, not in the order of keys.
        shuffled = base.take(np.random.default_rng(1).permutation(20))
        dataset = lance.write_dataset(shuffled, root / "t.lance", max_rows_per_file=7)
        column = self.schema.names[-2]
        dataset.initialize_mem_wal(bucket_column=column, num_buckets=buckets)
        self.root, self.open_engine = root, open_engine
        self.engine = open_engine(root)

    def rows(self, values: dict[int, int]) -> pa.Table:
        return pa.Table.from_pylist(
            [{**self.key(key), "v": value} for key, value in values.items()], schema=self.schema
        )

    def write(self, values: dict[int, int], deleted: list[int]) -> None:
        keys = [name for name in self.schema.names if name != "v"]
        gone = self.rows(dict.fromkeys(deleted, 0)).select(keys)
        writer = self.engine.catalog.table("t").writer()
        if values:
            writer.write(Changes(upserts=self.rows(values)))
        if deleted:
            writer.write(Changes(deletes=gone))
        self.expected |= values
        for key in deleted:
            self.expected.pop(key, None)

    def flush(self) -> None:
        self.engine.catalog.table("t").writer().flush()

    def check(self, *engines: QueryEngine) -> None:
        wanted = sorted(rows_of(self.rows(self.expected)))
        for engine in engines:
            found = engine.execute("SELECT * FROM t").read_all()
            assert sorted(rows_of(found)) == wanted
            for key in (0, 3, 21):
                where = " AND ".join(f"{name} = {value!r}" for name, value in self.key(key).items())
                one = engine.execute(f"SELECT v FROM t WHERE {where}").read_all().column("v").to_pylist()
                assert one == ([self.expected[key]] if key in self.expected else [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "indexed"),
    [("integers", False), ("integers", True), ("texts", False), ("texts", True), ("pairs", False)],
)
def test_every_step_is_seen(
    root: Path, open_engine: Callable[[Path], QueryEngine], kind: str, *, indexed: bool
) -> None:
    table = Follower(root, kind, open_engine, buckets=2)
    if indexed:
        lance.dataset(root / "t.lance").create_scalar_index("id", "BTREE")
    reader = open_engine(root)
    rng = np.random.default_rng(7)
    for step in range(1, 13):
        keys = rng.integers(0, 30, 4).tolist()
        table.write(dict.fromkeys(keys[:3], step), [keys[3]] if step % 2 else [])
        if step % 5 == 4:
            table.check(table.engine)  # what is flushed was seen before
            table.flush()
        if step % 3 == 0:
            table.check(table.engine, reader)
    table.check(table.engine, reader, open_engine(root))


def refused(*_: object, **__: object) -> Any:
    pytest.fail("keys were searched again")


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_what_one_query_found_serves_the_next(
    root: Path,
    open_engine: Callable[[Path], QueryEngine],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    buckets: int,
) -> None:
    table = Follower(root, kind, open_engine, buckets)
    table.write({1: 1, 25: 1}, [2])
    table.flush()
    table.write(dict.fromkeys(range(10), 2), [25])
    table.check(table.engine)

    with monkeypatch.context() as patch:
        patch.setattr(key_search, "read_physical_keys", refused)
        patch.setattr(visibility, "find_rows", refused)
        patch.setattr(Visibility, "_apply_tails", refused)
        table.check(table.engine)
    asked: list[int] = []
    original = key_search.TailRows.locate

    def counting(self: Any, source: Any, start: int, stop: int, find: Any) -> Any:
        asked.append(stop - start)
        return original(self, source, start, stop, find)

    monkeypatch.setattr(key_search.TailRows, "locate", counting)
    for key in (4, 5, 6):
        table.write({key: 3}, [])
        table.check(table.engine)
    # Only the row that came is looked for: in each of three fragments, and in the generation.
    assert set(asked) == {1}


def test_what_an_index_told_of_unflushed_rows_is_known_when_they_are_flushed(
    root: Path, open_engine: Callable[[Path], QueryEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Follower(root, "texts", open_engine, buckets=1)
    lance.dataset(root / "t.lance").create_scalar_index("id", "BTREE")
    for step in (1, 2):
        table.write({3: step, 12: step, 25: step}, [step + 5])
        table.check(table.engine)
        with monkeypatch.context() as patch:
            patch.setattr(visibility, "find_rows", refused)
            table.flush()
            table.check(table.engine)


@pytest.mark.slow
def test_a_region_may_have_nothing_that_is_unflushed(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    table = Follower(root, "integers", open_engine, buckets=2)
    table.write(dict.fromkeys(range(10), 1), [])
    table.check(table.engine)
    table.flush()
    for step in (2, 3):
        table.write({0: step}, [])
        table.check(table.engine, open_engine(root))


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_base_version_has_rows_in_other_places_under_the_same_unflushed_rows(
    root: Path, open_engine: Callable[[Path], QueryEngine], kind: str
) -> None:
    table = Follower(root, kind, open_engine, buckets=2)
    table.write({1: 1, 25: 1}, [2])
    table.flush()
    table.write({3: 2, 4: 2, 25: 2}, [1])
    table.check(table.engine)
    lance.dataset(root / "t.lance").optimize.compact_files()
    table.check(table.engine, open_engine(root))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_were_seen_before_the_table_got_a_column_are_flushed_after_it(
    root: Path, open_engine: Callable[[Path], QueryEngine], kind: str
) -> None:
    table = Follower(root, kind, open_engine, buckets=1)
    table.write({1: 1, 25: 1}, [2])
    table.check(table.engine)
    lance.dataset(root / "t.lance").add_columns(pa.field("w", pa.int64()))
    # Both are read by whoever flushes: what the log had by then, and what came since.
    table.write({5: 2}, [])
    table.flush()
    wanted = sorted((*row, None) for row in rows_of(table.rows(table.expected)))
    for engine in (table.engine, open_engine(root)):
        assert sorted(rows_of(engine.execute("SELECT * FROM t").read_all())) == wanted


@pytest.mark.slow
def test_a_region_gets_generations_while_another_stays_unflushed(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    start = pa.table([range(8), [0] * 8], schema=INTEGERS)
    table = LsmTable.create(root, "t", start, bucketed("id", 2, recorded=True), writers)
    first = table.region_of({"id": 0})
    others = [key for key in range(8) if table.region_of({"id": key}) != first]
    here = [key for key in range(8) if key not in others]
    table.put([{"id": others[0], "v": 1}])
    follower, expected = open_engine(root), dict.fromkeys(range(8), 0) | {others[0]: 1}
    for step, key in enumerate([*here, here[0]], start=2):
        table.put([{"id": key, "v": step}])
        table.writer(first).close()
        expected[key] = step
        for engine in (follower, open_engine(root)):
            found = engine.execute("SELECT id, v FROM t").read_all()
            assert sorted(rows_of(found)) == sorted(expected.items())


def test_a_merge_of_the_oldest_generation_leaves_what_is_known_of_later_ones(
    root: Path,
    writers: WriterProcess,
    open_engine: Callable[[Path], QueryEngine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = pa.table([range(8), [0] * 8], schema=INTEGERS)
    table = LsmTable.create(root, "t", start, bucketed("id", 1, recorded=True), writers)
    expected = dict.fromkeys(range(8), 0)
    for step in (1, 2, 3):
        values = {1: step, 2 + step: step, 10 + step: step}
        table.put([{"id": key, "v": value} for key, value in values.items()])
        table.delete([{"id": 10 + step - 1}])
        table.close_writers()
        expected |= values
        expected.pop(10 + step - 1, None)
    engine = open_engine(root)
    read = "SELECT id, v FROM t"
    assert sorted(rows_of(engine.execute(read).read_all())) == sorted(expected.items())
    merge_generations(table.path, table.region_of({"id": 0}), 1)
    monkeypatch.setattr(visibility, "find_newest_in_layers", refused)
    monkeypatch.setattr(visibility, "find_newest", refused)
    assert sorted(rows_of(engine.execute(read).read_all())) == sorted(expected.items())


def shown(masks: SnapshotMasks) -> dict[str, list[bool]]:
    """Source and fragment -> which rows the masks show."""
    sources = {"base": masks.base, **masks.generations, **masks.tails}
    return {
        f"{name} {fragment}": mask.visible.to_pylist()
        for name, source in sources.items()
        for fragment, mask in source.fragments.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("room", [1 << 20, 1 << 11])
@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_that_is_older_than_the_one_before_has_masks_of_its_own(
    root: Path, open_engine: Callable[[Path], QueryEngine], kind: str, room: int
) -> None:
    """Whether or not there is room for the keys of the base table."""
    table = Follower(root, kind, open_engine, buckets=1)
    known = table.engine.catalog.table("t")

    def snapshot() -> TableSnapshot:
        return known.take_snapshot(known.assignments(known.base(), "strong").region_ids)

    table.write({1: 1, 25: 1}, [2])
    table.flush()
    taken = []
    for step in (2, 3, 4):
        table.write({step: step, 25: step}, [1])
        taken.append(snapshot())
    with ThreadPoolExecutor(1) as executor:
        kept = Visibility(ByteCache(room), executor)
        for one in (taken[1], taken[0], taken[2], taken[0], taken[1], taken[2]):
            alone = Visibility(ByteCache(1 << 20), executor)
            assert shown(kept.compute_masks(one)) == shown(alone.compute_masks(one))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "indexed"), [("integers", False), ("texts", True), ("pairs", False)])
def test_masks_that_are_kept_are_those_of_each_snapshot(
    root: Path, open_engine: Callable[[Path], QueryEngine], kind: str, *, indexed: bool
) -> None:
    table = Follower(root, kind, open_engine, buckets=1)
    if indexed:
        lance.dataset(root / "t.lance").create_scalar_index("id", "BTREE")
    catalog = table.engine.catalog
    known, kept = catalog.table("t"), Visibility(catalog.cache, catalog.executor)

    def check() -> None:
        snapshot = known.take_snapshot(known.assignments(known.base(), "strong").region_ids)
        alone = Visibility(ByteCache(1 << 20), catalog.executor)
        assert shown(kept.compute_masks(snapshot)) == shown(alone.compute_masks(snapshot))

    for step in range(1, 5):
        table.write({step: step, step + 1: step, 25: step}, [step + 8])
        check()
        if step == 2:
            lance.dataset(root / "t.lance").optimize.compact_files(target_rows_per_fragment=10)
            check()
        table.flush()
        check()
        if step == 3:
            lance.dataset(root / "t.lance").optimize.compact_files()
            check()


def test_regions_that_have_nothing_but_unflushed_rows_have_masks_of_their_own(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    table = Follower(root, "integers", open_engine, buckets=2)
    known = table.engine.catalog.table("t")
    table.write({2: 1, 3: 1}, [])
    regions = known.assignments(known.base(), "strong").region_ids
    one, other = (known.take_snapshot((region,)) for region in regions)
    assert one.tails[0].rows.num_rows == other.tails[0].rows.num_rows
    with ThreadPoolExecutor(1) as executor:
        kept = Visibility(ByteCache(1 << 20), executor)
        for snapshot in (one, other):
            alone = Visibility(ByteCache(1 << 20), executor)
            assert shown(kept.compute_masks(snapshot)) == shown(alone.compute_masks(snapshot))


def test_newest_rows_of_one_generation_are_no_tombstones(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    table = Follower(root, "integers", open_engine, buckets=1)
    table.write({30: 1, 31: 1}, [])
    table.write({30: 2}, [31])
    table.flush()
    known = table.engine.catalog.table("t")
    snapshot = known.take_snapshot(known.assignments(known.base(), "strong").region_ids)
    (generation,) = snapshot.generations
    keys = generation.read_keys(snapshot.base)
    shown = find_newest(keys)
    assert [key for key, is_shown in zip(keys.keys.to_pylist(), shown, strict=True) if is_shown] == [30]
    # Rows that later ones of the same generation supersede are deleted in it.
    assert (keys.addresses.tolist(), keys.dead.tolist()) == ([2, 3], [False, True])
    assert (generation.rows, generation.fragment_rows) == (4, {0: 4})
    assert keys.nbytes == keys.keys.nbytes + keys.addresses.nbytes + keys.dead.nbytes
    # What is kept of its rows is found again by the next query, and by a later base version.
    source = generation.source(snapshot.base)
    assert generation.source(snapshot.base) is source
    assert source.place == generation.place


def test_a_generation_that_is_gone_or_broken_is_named(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    table = Follower(root, "integers", open_engine, buckets=1)
    table.write({30: 1}, [])
    table.flush()
    known = table.engine.catalog.table("t")
    (generation,) = known.take_snapshot(known.assignments(known.base(), "strong").region_ids).generations
    name = generation.path.rpartition("/")[2]
    for file in (root / "t.lance" / generation.path).glob("_versions/*"):
        file.write_bytes(b"no manifest")
    base = open_engine(root).catalog.table("t").base()
    with pytest.raises(CorruptDataError, match=f"{generation.path} can't be read: .+"):
        open_generation(base, generation.region_id, 1, name)
    with pytest.raises(GenerationVanishedError, match=f"{generation.path}0 is gone"):
        open_generation(base, generation.region_id, 1, f"{name}0")


def test_lance_lets_nobody_change_key_columns_under_a_memwal(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    """What is kept of keys names their columns all the same."""
    Follower(root, "texts", open_engine, buckets=1)
    dataset = lance.dataset(root / "t.lance")
    for change in ({"name": "k"}, {"data_type": pa.large_string()}):
        with pytest.raises(OSError, match="on a table with a MemWAL attached"):
            dataset.alter_columns({"path": "id", **change})
    with pytest.raises(OSError, match="cannot be changed once set"):
        dataset.update_field_metadata({"id": {}}, replace=True)
