"""Where snapshots of regions are found: by other builders' habits, after merges, and in clones of a table."""

import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.dataset import Index
from lance.file import LanceFileWriter

from lance_gateway.memwal.base.index_details import MEM_WAL_INDEX, MEM_WAL_INDEX_TYPE, read_base_manifest
from lance_gateway.memwal.base.versions import commit_next
from lance_gateway.memwal.regions.region_snapshots import encode_region_snapshots
from lance_gateway.pipeline.jobs.lake import Lake as PipelineLake
from lance_gateway.pipeline.jobs.lake import LakeTable, TableState
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import snapshot
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import SessionSettings
from tests.pipeline.snapshotting.remembered import ALWAYS, details_of, rows
from tests.planner.writes.dml.lake import Lake
from tests.support.lake.tables import LsmTable

# The place that this project's files had once: derived from the time of the snapshot.
_FORMER = uuid.UUID("8f0c0b35-3ad5-5a0e-9d4c-6f6b7d6f3c11")


@dataclass(frozen=True)
class Builder:
    """Somebody else's index builder, which keeps snapshots in a file.

    Attributes:
        title: of the test.
        index_id: UUID of the index and of the file's directory, for a time in ms.
        identity_only: whether rows have only the columns that the specification has now.
    """

    title: str
    index_id: Callable[[int], str] = lambda _: str(uuid.uuid4())
    identity_only: bool = False

    def __str__(self) -> str:
        return self.title

    def remember(self, table: LakeTable, taken_millis: int = 5000) -> Path:
        """Records all regions; returns the path of the file."""
        state = TableState.read(table)
        manifests = [one.manifest for one in state.regions.values()]
        index_id = self.index_id(taken_millis)
        path = Path(table.uri, "_indices", index_id, "index.lance")
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.identity_only:
            values = [int.from_bytes(one.region_values["bucket"], "little") for one in manifests]
            columns = pa.table(
                {
                    "shard_id": pa.array([one.region_id for one in manifests]),
                    "shard_spec_id": pa.array([one.region_spec_id for one in manifests], pa.uint32()),
                    "shard_field_bucket": pa.array(values, pa.int32()),
                }
            )
            with LanceFileWriter(str(path), columns.schema) as writer:
                writer.write_batch(columns)
        else:
            path.write_bytes(encode_region_snapshots(manifests, state.details.region_specs))
        encoded = state.details.encode_with_snapshots(taken_millis, len(manifests), None)
        before = read_base_manifest(table.storage, state.version).index_id
        assert before is not None
        operation = lance.LanceOperation.CreateIndex(
            [self._index(index_id, state.version, encoded)], [self._index(before, state.version, b"")]
        )
        assert commit_next(table.storage, state.version, operation)
        return path

    @staticmethod
    def _index(index_id: str, version: int, encoded: bytes) -> Index:
        return Index(
            uuid=index_id,
            name=MEM_WAL_INDEX,
            fields=[],
            dataset_version=version,
            fragment_ids=set(),
            index_version=0,
            index_details=(MEM_WAL_INDEX_TYPE, encoded),
        )


SPECIFIED = Builder("by the index")
FORMER = Builder("by the time", lambda millis: str(uuid.uuid5(_FORMER, str(millis))))
IDENTITY = Builder("identity only", identity_only=True)
BASE = dict.fromkeys(range(10), "base")
FIRST = dict.fromkeys(range(6), "first") | dict.fromkeys(range(6, 10), "base")


@pytest.fixture
def read(root: Path, open_engine: Callable[[Path], QueryEngine]) -> Callable[..., dict[int, str]]:
    engine = open_engine(root)

    def rows_of(consistency: str = "snapshot", table: str = "t", where: str = "") -> dict[int, str]:
        settings = SessionSettings(consistency=consistency)  # type: ignore[arg-type]
        found = engine.execute(f"SELECT id, v FROM {table} {where}", settings).read_all().to_pylist()
        return {row["id"]: row["v"] for row in found}

    return rows_of


class TestFilesOfOtherBuilders:
    @pytest.mark.slow
    @pytest.mark.parametrize("builder", [SPECIFIED, FORMER], ids=str)
    def test_they_are_read_and_still_after_merges(
        self, table: LakeTable, written: LsmTable, read: Callable[..., dict[int, str]], builder: Builder
    ):
        before = read_base_manifest(table.storage, table.dataset().version).index_id
        builder.remember(table)
        assert read() == FIRST
        assert read(where="WHERE id IN (5, 6)") == {5: "first", 6: "base"}
        written.put(rows(8, v="later"))
        written.close_writers()
        assert read() == FIRST
        merge(table)
        found = read_base_manifest(table.storage, table.dataset().version)
        assert found.index_id not in (before, builder.index_id(5000))
        assert read() == FIRST | {8: "later"}
        written.put(rows(9, v="last"))
        written.close_writers()
        merge(table)
        assert read() == FIRST | {8: "later", 9: "last"}

    @pytest.mark.slow
    def test_regions_known_by_identity_alone_are_read_as_they_are_now(
        self, table: LakeTable, written: LsmTable, read: Callable[..., dict[int, str]]
    ):
        IDENTITY.remember(table)
        assert read() == FIRST
        written.put(rows(8, v="later"))
        written.close_writers()
        assert read() == FIRST | {8: "later"}
        assert read(where="WHERE id IN (5, 8)") == {5: "first", 8: "later"}
        merge(table)
        assert read() == FIRST | {8: "later"}

    @pytest.mark.parametrize("builder", [SPECIFIED, FORMER, IDENTITY], ids=str)
    def test_the_next_snapshot_of_ours_stands_in_the_index(self, table: LakeTable, builder: Builder):
        builder.remember(table)
        report = snapshot(table, ALWAYS)
        assert report.committed is not None
        assert details_of(table).inline_snapshots is not None
        assert snapshot(table, ALWAYS).committed is None

    def test_one_that_is_nowhere_is_named(self, table: LakeTable, read: Callable[..., dict[int, str]]):
        SPECIFIED.remember(table).unlink()
        with pytest.raises(
            Exception, match=r"region snapshots of .* are gone.*Read with consistency 'flushed'"
        ):
            read()


class TestOurs:
    def test_a_reader_of_the_specification_finds_them_after_a_merge(
        self, table: LakeTable, written: LsmTable
    ):
        """Inline, however many regions there are: the index gets another UUID, and a directory none."""
        snapshot(table, ALWAYS)
        taken = details_of(table).inline_snapshots
        merge(table)
        details = details_of(table)
        assert details.merged_generations
        assert details.inline_snapshots == taken
        assert not Path(table.uri, "_indices").exists()


def shallow(table: LakeTable, target: Path) -> None:
    dataset = table.dataset()
    dataset.shallow_clone(str(target), dataset.version)


def deep(table: LakeTable, target: Path) -> None:
    dataset = table.dataset()
    dataset.deep_clone(str(target), dataset.version)


def copied(table: LakeTable, target: Path) -> None:
    shutil.copytree(table.uri, target)


def without_regions(table: LakeTable, target: Path) -> None:
    shutil.copytree(table.uri, target, ignore=shutil.ignore_patterns("_mem_wal"))


def ours(table: LakeTable) -> None:
    snapshot(table, ALWAYS)


CLONES = [shallow, deep, copied, without_regions]


class TestClones:
    """A clone is a copy of a base version: regions of its source are not its own, unless they were copied."""

    @pytest.mark.slow
    @pytest.mark.parametrize("remember", [ours, SPECIFIED.remember, FORMER.remember, IDENTITY.remember])
    @pytest.mark.parametrize("clone", CLONES, ids=lambda one: one.__name__)
    def test_no_consistency_fails_or_shows_more_than_another(
        self,
        root: Path,
        table: LakeTable,
        read: Callable[..., dict[int, str]],
        clone: Callable[[LakeTable, Path], None],
        remember: Callable[[LakeTable], object],
    ):
        remember(table)
        clone(table, root / "c.lance")
        expected = FIRST if clone is copied else BASE
        for consistency in ("strong", "flushed", "snapshot"):
            assert read(consistency, "c") == expected
        lance.dataset(str(root / "c.lance")).delete("id = 9")
        assert read("snapshot", "c") == {key: v for key, v in expected.items() if key != 9}
        assert read("snapshot") == FIRST

    @pytest.mark.slow
    @pytest.mark.parametrize("clone", CLONES, ids=lambda one: one.__name__)
    def test_rows_written_to_a_clone_are_not_taken_for_merged_ones(
        self,
        root: Path,
        table: LakeTable,
        open_engine: Callable[[Path], QueryEngine],
        clone: Callable[[LakeTable, Path], None],
    ):
        """Its index tells the merges of its source, whose regions have the names that its own will have."""
        lake = Lake(open_engine(root))

        def flush(name: str) -> None:
            lake.engine.catalog.table(name).close()

        lake.write(
            "CREATE TABLE s (id BIGINT NOT NULL, v VARCHAR, PRIMARY KEY (id)) "
            "WITH (memwal = true, region_by = 'bucket(id, 2)')"
        )
        source = PipelineLake.open(str(root)).table("s")
        for v in ("first", "second"):
            lake.write(
                f"INSERT INTO s VALUES (1, '{v}'), (2, '{v}'), (3, '{v}') "
                "ON CONFLICT (id) DO UPDATE SET v = excluded.v"
            )
            flush("s")
            merge(source)
        assert set(details_of(source).merged_generations.values()) == {2}
        clone(source, root / "c.lance")
        lake.write("UPDATE c SET v = 'clone' WHERE id = 2")
        lake.write("INSERT INTO c VALUES (4, 'clone')")
        written = [{"id": key, "v": "second" if key % 2 else "clone"} for key in (1, 2, 3, 4)]
        assert lake.rows("c") == written
        flush("c")
        assert lake.rows("c") == written
        merge(PipelineLake.open(str(root)).table("c"))
        assert lake.rows("c") == written
        assert lance.dataset(str(root / "c.lance")).to_table().sort_by("id").to_pylist() == written
