"""Clones and copies of a table are tables of their own, in which regions have the ids of the original's."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.base.index_details import MemWalIndexDetails, read_index_details
from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.regions.generation_numbers import RegionMismatchError
from lance_gateway.memwal.regions.manifest import RegionManifest, list_regions, read_latest_manifest
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.pipeline.cleaning import CleanPolicy, Kind, clean
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.merging.batches import agree
from lance_gateway.planner.engine import PreparedQuery, QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from tests.support.judging.results import rows_of
from tests.support.lake.cleaning import create_late_clock
from tests.support.sampling import sample

Rows = dict[int, int]
EVERYTHING = CleanPolicy(retain_versions=1)


class Lakeside:
    """A gateway over a root, and the rows that each table must have."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.engine = QueryEngine(Catalog.open(str(root), writing=WriteOptions(hold_ms=0)))
        self.rows: dict[str, Rows] = {}

    def sql(self, text: str, **settings: Any) -> Any:
        prepared = self.engine.prepare_statement(text, SessionSettings(**settings))
        if isinstance(prepared, PreparedQuery):
            return rows_of(prepared.execute().read_all())
        result: WriteResult = prepared.execute()
        return result.affected

    def put(self, name: str, rows: Rows) -> None:
        values = ", ".join(f"({key}, {n})" for key, n in rows.items())
        self.sql(f"INSERT INTO {name} VALUES {values}")
        self.rows[name] = {**self.rows.get(name, {}), **rows}

    def delete(self, name: str, key: int) -> None:
        self.sql(f"DELETE FROM {name} WHERE id = {key}")
        self.rows[name] = {one: n for one, n in self.rows[name].items() if one != key}

    def flush(self, name: str) -> None:
        self.engine.catalog.table(name).writer().flush()

    def lake(self, name: str) -> LakeTable:
        return LakeTable.at(str(self.root / f"{name}.lance"))

    def details(self, name: str) -> MemWalIndexDetails:
        storage = self.lake(name).storage
        found = read_index_details(storage, lance.dataset(storage.uri).version)
        assert found is not None
        return found

    def read(self, name: str, *, as_of: str = "", **settings: Any) -> Rows:
        return dict(self.sql(f"SELECT id, n FROM {name} {as_of}", **settings))

    def regions(self, name: str) -> dict[str, RegionManifest]:
        storage = self.lake(name).storage
        found = (read_latest_manifest(storage, one) for one in list_regions(storage))
        return {one.region_id: one for one in found if one is not None}

    def check(self, name: str) -> None:
        """Whether every way to read a table shows its rows."""
        rows = self.rows[name]
        for one in (self, other := Lakeside(self.root)):
            assert one.read(name) == rows
            for key in range(10):
                found = one.sql(f"SELECT n FROM {name} WHERE id = {key}")
                assert found == ([(rows[key],)] if key in rows else []), key
        other.close()

    def close(self) -> None:
        self.engine.close()


@pytest.fixture
def here(root: Path) -> Iterator[Lakeside]:
    """Table ``t``: several generations of two regions were merged, and some cleaned up."""
    made = Lakeside(root)
    made.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT) WITH (region_by = 'bucket(id, 2)')")
    for n in (1, 2, 3):
        made.put("t", dict.fromkeys(range(6), n) | {10 + n: n})
        made.delete("t", 5)
        made.flush("t")
        merge(made.lake("t"))
    made.check("t")
    yield made
    made.close()


def _dataset(here: Lakeside) -> Any:
    return lance.dataset(here.root / "t.lance")


def _shallow(here: Lakeside, target: Path) -> None:
    dataset = _dataset(here)
    dataset.shallow_clone(str(target), reference=dataset.version)


def _shallow_of_tag(here: Lakeside, target: Path) -> None:
    dataset = _dataset(here)
    dataset.tags.create("kept", dataset.version)
    dataset.shallow_clone(str(target), reference="kept")


def _deep(here: Lakeside, target: Path) -> None:
    dataset = _dataset(here)
    dataset.deep_clone(str(target), reference=dataset.version)


def _shallow_of_branch(here: Lakeside, target: Path) -> None:
    branch = _dataset(here).create_branch("side")
    branch.shallow_clone(str(target), reference=("side", branch.version))


def _copy(here: Lakeside, target: Path) -> None:
    shutil.copytree(here.root / "t.lance", target)


def _copy_without_regions(here: Lakeside, target: Path) -> None:
    _copy(here, target)
    shutil.rmtree(target / "_mem_wal")


def _copy_with_one_region(here: Lakeside, target: Path) -> None:
    _copy(here, target)
    shutil.rmtree(min((target / "_mem_wal").iterdir()))


def _copy_without_manifests(here: Lakeside, target: Path) -> None:
    _copy(here, target)
    for one in (target / "_mem_wal").iterdir():
        shutil.rmtree(one / "manifest")


KINDS: list[Any] = [
    _shallow,
    pytest.param(_shallow_of_tag, marks=pytest.mark.soak),
    _shallow_of_branch,
    _deep,
    pytest.param(_copy, marks=pytest.mark.soak),
    pytest.param(_copy_without_regions, marks=pytest.mark.soak),
    _copy_with_one_region,
    pytest.param(_copy_without_manifests, marks=pytest.mark.soak),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample(KINDS, 3))
def test_what_is_written_to_a_clone_stays(here: Lakeside, kind: Callable[[Lakeside, Path], None]) -> None:
    kind(here, here.root / "c.lance")
    here.rows["c"] = here.rows["t"]
    versions: dict[int, Rows] = {}
    for n in (10, 20, 30):
        here.put("c", {0: n, 1: n, 5: n, 50 + n: n, 51 + n: n})
        here.delete("c", 2)
        here.check("c")
        here.flush("c")
        here.check("c")
        assert here.read("c", consistency="flushed") == here.rows["c"]
        merge(here.lake("c"))
        here.check("c")
        versions[lance.dataset(here.root / "c.lance").version] = here.rows["c"]
        for version, rows in versions.items():
            assert here.read("c", as_of=f"FOR VERSION AS OF {version}") == rows
    here.put("c", {2: 99, 3: 99})
    clean(here.lake("c"), EVERYTHING, delete=True, clock=create_late_clock())
    here.check("c")
    assert lance.dataset(here.root / "c.lance").to_table().num_rows == len(here.rows["c"]) - 1
    here.check("t")


@pytest.mark.slow
def test_two_that_create_a_region_of_a_clone_agree(here: Lakeside) -> None:
    _shallow(here, here.root / "c.lance")
    here.rows["c"] = here.rows["t"]
    other = Lakeside(here.root)
    other.rows = here.rows
    other.put("c", {0: 7})
    here.put("c", {0: 8, 1: 8})
    other.put("c", {1: 9})
    here.check("c")
    other.close()


@pytest.mark.slow
def test_a_region_that_was_removed_goes_on_from_what_was_merged_meanwhile(here: Lakeside) -> None:
    here.put("t", dict.fromkeys(range(4), 40))
    here.flush("t")
    merge(here.lake("t"))
    before = here.regions("t")
    here.engine.catalog.table("t").writer().release_regions()
    other = Lakeside(here.root)  # Knows no region.
    shutil.rmtree(here.root / "t.lance" / "_mem_wal")
    other.sql("INSERT INTO t VALUES " + ", ".join(f"({key}, 41)" for key in range(4)))
    after = here.regions("t")
    assert after.keys() == before.keys()
    assert [one.current_generation for one in after.values()] == [4 + 1] * 2
    here.rows["t"] |= dict.fromkeys(range(4), 41)
    assert other.read("t") == here.rows["t"]
    other.close()


@pytest.mark.slow
def test_indexes_of_a_clone_cover_what_they_are_recorded_to_cover(here: Lakeside) -> None:
    lance.dataset(here.root / "t.lance").create_scalar_index("n", "BTREE")
    here.put("t", dict.fromkeys(range(4), 4))
    here.flush("t")
    merge(here.lake("t"))
    lance.dataset(here.root / "t.lance").optimize.optimize_indices()
    _deep(here, here.root / "c.lance")
    here.rows["c"] = here.rows["t"]
    for n in (50, 60):
        details = here.details("c")
        assert details.index_catchup["n_idx"] == details.merged_generations
        here.put("c", dict.fromkeys(range(4), n))
        here.flush("c")
        merge(here.lake("c"))
        assert here.details("c").index_catchup["n_idx"] == details.merged_generations
        lance.dataset(here.root / "c.lance").optimize.optimize_indices()
        here.check("c")
        assert sorted(here.sql(f"SELECT id FROM c WHERE n = {n}")) == [(0,), (1,), (2,), (3,)]


class TestARegionThatAnotherWriterBeganAnew:
    """Lance's own writer begins at generation 1, which the base table of a clone counts as merged."""

    @pytest.fixture
    def begun(self, here: Lakeside) -> str:
        _shallow(here, here.root / "c.lance")
        here.rows["c"] = here.rows["t"]
        region = list_regions(here.lake("t").storage)[0]
        dataset = lance.dataset(here.root / "c.lance")
        with dataset.mem_wal_writer(region, durable_write=True) as writer:
            writer.put(pa.table({"id": [77], "n": [77]}, schema=dataset.schema))
        return region

    @pytest.mark.slow
    def test_queries_say_so(self, here: Lakeside, begun: str) -> None:
        for settings in ({}, {"consistency": "flushed"}):
            with pytest.raises(
                RegionMismatchError, match=f"region {begun}.*move .*_mem_wal/{begun} elsewhere"
            ):
                here.read("c", **settings)

    @pytest.mark.slow
    def test_the_past_says_so(self, here: Lakeside, begun: str) -> None:
        lance.dataset(here.root / "c.lance").update_config({"one": "more"})
        version = lance.dataset(here.root / "c.lance").version
        with pytest.raises(RegionMismatchError, match=begun):
            here.read("c", as_of=f"FOR VERSION AS OF {version}")

    @pytest.mark.slow
    def test_writers_say_so(self, here: Lakeside, begun: str) -> None:
        with pytest.raises(PreconditionError, match=begun):
            here.sql("INSERT INTO c VALUES (0, 1), (1, 1), (2, 1), (3, 1)")

    @pytest.mark.slow
    def test_merges_say_so(self, here: Lakeside, begun: str) -> None:
        with pytest.raises(RegionMismatchError, match=begun):
            merge(here.lake("c"))

    @pytest.mark.slow
    def test_nothing_of_it_is_cleaned_up(self, here: Lakeside, begun: str) -> None:
        before = sorted((here.root / "c.lance" / "_mem_wal").rglob("*"))
        report = clean(here.lake("c"), EVERYTHING, delete=True, clock=create_late_clock())
        assert sorted((here.root / "c.lance" / "_mem_wal").rglob("*")) == before
        assert any(begun in one.path and "generation" in one.reason for one in report.kept)

    @pytest.mark.slow
    def test_the_way_out_leads_out(self, here: Lakeside, begun: str) -> None:
        place = here.root / "c.lance" / "_mem_wal" / begun
        shutil.move(place, here.root / "moved")
        (generation,) = (here.root / "moved").glob("*_gen_1")
        found = lance.dataset(generation).to_table()
        here.put("c", dict(zip(*(column.to_pylist() for column in found.columns[:2]), strict=True)))
        here.check("c")
        assert here.rows["c"][77] == 77


class TestARestoredVersion:
    @pytest.mark.slow
    def test_generations_that_are_there_are_shown_on_top(self, here: Lakeside) -> None:
        dataset = _dataset(here)
        dataset.checkout_version(dataset.version - 1).restore()
        here.check("t")

    @pytest.mark.slow
    def test_generations_that_are_gone_are_missed(self, here: Lakeside) -> None:
        dataset = _dataset(here)
        newest, older = dataset.version, dataset.checkout_version(2)
        policy = CleanPolicy(grace_seconds=0, retain_versions=1, kinds=(Kind.VERSIONS, Kind.GENERATIONS))
        dataset.tags.create("old", 2)
        clean(here.lake("t"), policy, delete=True, clock=create_late_clock())
        listed = {
            flushed.generation for one in here.regions("t").values() for flushed in one.flushed_generations
        }
        assert listed == {1}
        older.restore()
        with pytest.raises(RegionMismatchError, match="generations 2, 3 are gone"):
            here.read("t")
        with pytest.raises(RegionMismatchError, match="generations 2, 3 are gone"):
            merge(here.lake("t"))
        lance.dataset(here.root / "t.lance", version=newest).restore()
        here.check("t")


@pytest.mark.slow
def test_the_past_of_a_copy_without_regions_is_not_told_wrongly(here: Lakeside) -> None:
    here.put("t", {0: 60})
    here.flush("t")
    dataset = _dataset(here)
    dataset.update_config({"one": "more"})
    version = lance.dataset(here.root / "t.lance").version
    assert here.read("t", as_of=f"FOR VERSION AS OF {version}")[0] == 60
    merge(here.lake("t"))
    _copy_without_regions(here, here.root / "c.lance")
    here.rows["c"] = here.rows["t"]
    for _ in range(2):
        here.check("c")
        with pytest.raises(PreconditionError, match="generation"):
            here.read("c", as_of=f"FOR VERSION AS OF {version}")
        here.put("c", dict.fromkeys(range(4), 70))


@pytest.mark.slow
def test_the_past_of_a_copy_that_lost_its_times_is_not_told_wrongly(here: Lakeside) -> None:
    here.put("t", {0: 60})
    here.flush("t")
    version = _dataset(here).version
    assert here.read("t", as_of=f"FOR VERSION AS OF {version}")[1] == 3
    shutil.copytree(here.root / "t.lance", here.root / "c.lance", copy_function=shutil.copyfile)
    here.rows["c"] = here.rows["t"]
    here.check("c")
    with pytest.raises(PreconditionError, match="times of its files"):
        here.read("c", as_of=f"FOR VERSION AS OF {version}")


@pytest.mark.slow
def test_a_clone_of_a_clone(here: Lakeside) -> None:
    _shallow(here, here.root / "c.lance")
    here.rows["c"] = here.rows["t"]
    here.put("c", {0: 5, 1: 5})
    here.flush("c")
    merge(here.lake("c"))
    dataset = lance.dataset(here.root / "c.lance")
    dataset.shallow_clone(str(here.root / "d.lance"), reference=dataset.version)
    here.rows["d"] = here.rows["c"]
    here.put("d", {0: 6, 1: 6})
    here.check("d")
    here.check("c")


@pytest.mark.slow
def test_a_merge_that_began_in_the_original_does_not_hold_up_the_copy(here: Lakeside) -> None:
    storage = here.lake("t").storage
    for region, manifest in here.regions("t").items():
        agree(storage, region, manifest.current_generation, manifest.current_generation + 5)
    _copy_without_regions(here, here.root / "c.lance")
    here.rows["c"] = here.rows["t"]
    here.put("c", dict.fromkeys(range(4), 9))
    here.flush("c")
    assert sum(one.count for one in merge(here.lake("c")).batches) == 2
    here.check("c")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_random_histories_of_clones_and_overwritten_tables(root: Path, seed: int) -> None:
    """Each clone goes on as the table; what is in it is what was merged, or all where regions came along."""
    draw, here, name = random.Random(seed), Lakeside(root), "t0"
    here.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, n BIGINT) WITH (region_by = 'bucket(id, 2)')")
    here.rows[name] = {}
    for step in range(40):
        kind = draw.choice(("put", "put", "delete", "flush", "merge", "clean", "clone", "overwrite"))
        lake = here.lake(name)
        if kind == "put":
            here.put(name, {draw.randrange(10): step for _ in range(draw.randint(1, 4))})
        elif kind == "delete" and here.rows[name]:
            here.delete(name, draw.choice(sorted(here.rows[name])))
        elif kind == "flush":
            here.flush(name)
        elif kind == "merge":
            merge(lake)
        elif kind == "clean":
            policy = CleanPolicy(grace_seconds=0, retain_versions=draw.choice((None, 1)))
            clean(lake, policy, delete=True, clock=create_late_clock())
        elif kind == "clone":
            name = _cloned(here, draw, name, f"c{step}")
        elif kind == "overwrite":
            dataset = lance.dataset(lake.uri)
            here.rows[name] = {1: step}
            rows = pa.table({"id": [1], "n": [step]}, schema=dataset.schema)
            lance.write_dataset(rows, lake.uri, mode="overwrite")
            regions = f"region_by = 'bucket(id, {draw.randint(1, 3)})', discard_regions = true"
            here.sql(f"ALTER TABLE {name} SET (memwal = true, {regions})")
        here.check(name)
    here.close()


def _cloned(here: Lakeside, draw: random.Random, name: str, clone: str) -> str:
    here.flush(name)
    lake, target = here.lake(name), here.root / f"{clone}.lance"
    kind = draw.choice(("shallow", "deep", "copy", "copy without regions"))
    if kind != "copy":
        merge(lake)
    dataset = lance.dataset(lake.uri)
    if kind == "shallow":
        dataset.shallow_clone(str(target), reference=dataset.version)
    elif kind == "deep":
        dataset.deep_clone(str(target), reference=dataset.version)
    else:
        shutil.copytree(lake.uri, target)
        if kind != "copy" and (target / "_mem_wal").exists():
            shutil.rmtree(target / "_mem_wal")
    here.rows[clone] = dict(here.rows[name])
    return clone
