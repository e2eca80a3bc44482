"""What a client sees when what lies on disk is not as it should be; the server goes on serving."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adbc_driver_manager as adbc
import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_gateway.memwal.errors import LanceGatewayError, NotFoundError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field, unpartitioned
from tests.support.processes.servers import GatewayProcess, fetch, open_connection
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32())])
BASE = pa.Table.from_pylist([{"id": 1, "n": 1}, {"id": 2, "n": 2}], schema=SCHEMA)
FRESH = [(1, 10), (2, 20), (3, 30)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    lance.write_dataset(BASE, root / "healthy.lance")
    return root


@pytest.fixture(scope="module")
def connection(lake: Path) -> Iterator[Any]:
    with GatewayProcess(lake) as server, open_connection(server.uri) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _the_server_serves_on(connection: Any) -> Iterator[None]:
    yield
    assert rows_of(fetch(connection, "SELECT count(*) FROM healthy")) == [(2,)]


@pytest.fixture
def ask(connection: Any) -> Callable[[str], list[tuple[Any, ...]]]:
    """Runs SQL over ADBC."""
    return lambda sql: sorted(rows_of(fetch(connection, sql)))


@pytest.fixture
def refused(connection: Any) -> Callable[[str], tuple[adbc.AdbcStatusCode, str]]:
    """Runs SQL that must fail; returns the status and the message that the client got."""

    def run(sql: str) -> tuple[adbc.AdbcStatusCode, str]:
        with pytest.raises(adbc.Error) as failure:
            fetch(connection, sql)
        message = str(failure.value)
        assert "Traceback" not in message
        assert '.py"' not in message
        return failure.value.status_code, message

    return run


@pytest.fixture
def table(lake: Path, writers: WriterProcess, request: pytest.FixtureRequest) -> LsmTable:
    """Two base rows, one generation over the first, the log over the second and a third."""
    name = request.node.name.partition("[")[0].removeprefix("test_")
    made = LsmTable.create(lake, name, BASE, unpartitioned(("id",), 1), writers)
    made.put([{"id": 1, "n": 10}])
    made.close_writers()
    made.put([{"id": 2, "n": 20}])
    made.put([{"id": 3, "n": 30}])
    return made


def region_of(table: LsmTable) -> str:
    (region,) = table.regions.values()
    return region


def newest_manifest(table: LsmTable) -> Path:
    region = region_of(table)
    return manifests.build_manifest_path(
        table.path, region, manifests.find_newest_version(table.path, region)
    )


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def garble(path: Path) -> None:
    path.write_bytes(b"\xff" * 40)


def empty(path: Path) -> None:
    path.write_bytes(b"")


# Roots and tables


@pytest.mark.slow
def test_a_root_that_does_not_exist_is_named(tmp_path: Path):
    with pytest.raises(NotFoundError, match="nowhere"):
        Catalog.open(str(tmp_path / "nowhere"))


@pytest.mark.slow
def test_serve_refuses_a_root_that_does_not_exist(tmp_path: Path):
    command = [str(Path(sys.executable).with_name("lance-gateway")), "serve", "--port", "0"]
    ended = subprocess.run(
        [*command, "--root", str(tmp_path / "nowhere")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode != 0
    assert "nowhere" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "grpc://" not in ended.stdout


def test_a_table_without_memwal_reads_as_it_is(lake: Path, ask: Any):
    lance.write_dataset(BASE, lake / "plain.lance")
    assert ask("SELECT * FROM plain") == [(1, 1), (2, 2)]
    assert ask("SELECT n FROM plain WHERE id = 2") == [(2,)]


def test_a_table_without_primary_key_keeps_every_row(lake: Path, writers: WriterProcess, ask: Any):
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int32())])
    rows = pa.Table.from_pylist([{"id": 1, "n": 1}], schema=schema)
    table = LsmTable.create(lake, "keyless", rows, unpartitioned((), 1), writers)
    table.put([{"id": 1, "n": 1}])
    table.close_writers()
    table.put([{"id": 1, "n": 2}])
    assert ask("SELECT * FROM keyless") == [(1, 1), (1, 1), (1, 2)]
    assert ask("SELECT count(*) FROM keyless WHERE id = 1") == [(3,)]


def test_a_directory_that_holds_no_table_is_named(lake: Path, refused: Any):
    (lake / "hollow.lance").mkdir()
    status, message = refused("SELECT * FROM hollow")
    assert status == adbc.AdbcStatusCode.NOT_FOUND
    assert "hollow" in message


def test_a_table_that_was_deleted_is_not_found(table: LsmTable, ask: Any, refused: Any):
    assert ask(f"SELECT * FROM {table.name}") == FRESH
    shutil.rmtree(table.path)
    status, message = refused(f"SELECT * FROM {table.name}")
    assert status == adbc.AdbcStatusCode.NOT_FOUND
    assert table.name in message


def test_a_base_manifest_cut_short_is_named(table: LsmTable, ask: Any, refused: Any):
    assert ask(f"SELECT * FROM {table.name}") == FRESH
    upsert = table.dataset().merge_insert(["id"]).when_not_matched_insert_all()
    upsert.execute(pa.Table.from_pylist([{"id": 4, "n": 40}], schema=SCHEMA))
    version = table.dataset().version
    manifest = table.path / "_versions" / f"{2**64 - 1 - version:020d}.manifest"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[: len(whole) // 2])
    status, message = refused(f"SELECT * FROM {table.name} WHERE n > 0")
    assert status == adbc.AdbcStatusCode.INTERNAL
    assert table.name in message
    manifest.write_bytes(whole)
    assert ask(f"SELECT * FROM {table.name}") == [*FRESH, (4, 40)]


# Regions


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut, garble, empty])
def test_a_damaged_region_manifest_is_named(
    lake: Path, writers: WriterProcess, ask: Any, refused: Any, damage: Callable[[Path], None]
):
    name = f"manifest_{damage.__name__}"
    table = LsmTable.create(lake, name, BASE, unpartitioned(("id",), 1), writers)
    table.put([{"id": 1, "n": 10}])
    assert ask(f"SELECT n FROM {name} WHERE id = 1") == [(10,)]
    table.close_writers()
    damage(newest_manifest(table))
    status, message = refused(f"SELECT * FROM {name}")
    assert status == adbc.AdbcStatusCode.INTERNAL
    assert newest_manifest(table).name in message


@pytest.mark.slow
@pytest.mark.parametrize(
    "hint", [b"", b"{", b'{"version": 1}', b'{"version": 9999}', b'{"version": "x"}', None]
)
def test_a_wrong_version_hint_does_no_harm(
    lake: Path, writers: WriterProcess, ask: Any, request: pytest.FixtureRequest, hint: bytes | None
):
    name = f"hint_{request.node.callspec.indices['hint']}"
    table = LsmTable.create(lake, name, BASE, unpartitioned(("id",), 1), writers)
    for number in range(3):
        table.put([{"id": 1, "n": number}])
        table.close_writers()
    file = newest_manifest(table).with_name("version_hint.json")
    file.unlink() if hint is None else file.write_bytes(hint)
    assert ask(f"SELECT n FROM {name} WHERE id = 1") == [(2,)]
    assert ask(f"SELECT * FROM {name}") == [(1, 2), (2, 2)]


def test_half_written_and_foreign_files_are_passed_over(table: LsmTable, ask: Any):
    region = table.path / "_mem_wal" / region_of(table)
    manifest = newest_manifest(table)
    following = manifests.build_manifest_path(
        table.path, region.name, manifests.find_newest_version(table.path, region.name) + 1
    )
    following.with_name(following.name + ".tmp.1").write_bytes(manifest.read_bytes()[:5])
    (region / "wal" / "notes.txt").write_text("not an entry")
    (region / "0badf00d_gen_9").mkdir()
    (table.path / "_mem_wal" / "lost+found").mkdir()
    (table.path / "_mem_wal" / "readme.txt").write_text("not a region")
    assert ask(f"SELECT * FROM {table.name}") == FRESH


def test_a_region_without_manifest_holds_nothing(table: LsmTable, ask: Any):
    (table.path / "_mem_wal" / "00000000-0000-4000-8000-000000000000" / "manifest").mkdir(parents=True)
    assert ask(f"SELECT * FROM {table.name}") == FRESH


@pytest.mark.parametrize("damage", [cut, garble, empty])
def test_a_damaged_log_entry_is_named(
    lake: Path, writers: WriterProcess, refused: Any, damage: Callable[[Path], None]
):
    name = f"log_{damage.__name__}"
    table = LsmTable.create(lake, name, BASE, bucketed("id", 1, recorded=True), writers)
    table.put([{"id": 1, "n": 10}])
    entries = sorted((table.path / "_mem_wal" / region_of(table) / "wal").glob("*.arrow"))
    for entry in entries:
        damage(entry)
    status, message = refused(f"SELECT * FROM {name}")
    assert status == adbc.AdbcStatusCode.INTERNAL
    assert any(entry.name in message for entry in entries)
    status, message = refused(f"SELECT * FROM {name} WHERE id = 1")
    assert any(entry.name in message for entry in entries)


# Generations


@pytest.mark.slow
def test_a_merged_generation_that_vanished_is_not_missed(table: LsmTable, ask: Any):
    directory = table.generation_directory(region_of(table), 1)
    merge_generations(table.path, region_of(table), up_to=1)
    shutil.rmtree(directory)
    assert ask(f"SELECT * FROM {table.name}") == FRESH
    assert ask(f"SELECT n FROM {table.name} WHERE id = 1") == [(10,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql", ["SELECT * FROM {}", "SELECT count(*) FROM {}", "SELECT n FROM {} WHERE id = 1"]
)
def test_an_unmerged_generation_that_vanished_is_named(
    lake: Path, writers: WriterProcess, refused: Any, request: pytest.FixtureRequest, sql: str
):
    name = f"vanished_{request.node.callspec.indices['sql']}"
    table = LsmTable.create(lake, name, BASE, unpartitioned(("id",), 1), writers)
    table.put([{"id": 1, "n": 10}])
    table.close_writers()
    directory = table.generation_directory(region_of(table), 1)
    shutil.rmtree(directory)
    status, message = refused(sql.format(name))
    assert status == adbc.AdbcStatusCode.INTERNAL
    assert directory.name in message


@pytest.mark.slow
def test_a_generation_that_vanished_after_it_was_read_is_never_passed_over(
    table: LsmTable, connection: Any, ask: Any
):
    """What was read once may be answered from memory; a column that was not is an error, not older data."""
    assert (1,) in ask(f"SELECT id FROM {table.name}")
    directory = table.generation_directory(region_of(table), 1)
    shutil.rmtree(directory)
    answer = _rows_or_message(connection, f"SELECT n FROM {table.name} WHERE id = 1")
    assert answer == [(10,)] or directory.name in str(answer)


def _rows_or_message(connection: Any, sql: str) -> list[tuple[Any, ...]] | str:
    try:
        return rows_of(fetch(connection, sql))
    except adbc.Error as error:
        return str(error)


@pytest.mark.slow
def test_a_generation_that_is_merged_and_removed_under_a_running_query(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
):
    """The reader gets the snapshot that it began with, or is told to ask again: never half of each."""
    count, share = 300_000, 20_000
    numbers = pa.array(range(count), pa.int64())
    base = pa.table([numbers, pa.nulls(count, pa.int32())], schema=SCHEMA)
    table = LsmTable.create(root, "t", base, unpartitioned(("id",), 1), writers)
    region = table.region_of({"id": 0})
    writer = table.writer(region)
    writer.put(pa.table([numbers[:share], pa.array([1] * share, pa.int32())], schema=SCHEMA))
    table.close_writers()
    reader = open_engine(root).execute("SELECT id, n FROM t")
    first = reader.read_next_batch()
    merge_generations(table.path, region, up_to=1)
    clean_up_merged(table.path, region)
    rest = _batches_or_error(reader)
    if isinstance(rest, LanceGatewayError):
        assert rest.status == "UNAVAILABLE"
        return
    rows = pa.Table.from_batches([first, *rest])
    assert rows.num_rows == count
    assert pc.sum(rows["n"]).as_py() == share
    assert pc.count_distinct(rows["id"]).as_py() == count


def _batches_or_error(reader: pa.RecordBatchReader) -> list[pa.RecordBatch] | LanceGatewayError:
    try:
        return list(reader)
    except LanceGatewayError as error:
        return error


def test_a_damaged_generation_is_named(table: LsmTable, refused: Any):
    directory = table.generation_directory(region_of(table), 1)
    for file in directory.glob("data/*"):
        file.write_bytes(file.read_bytes()[:20])
    status, message = refused(f"SELECT * FROM {table.name}")
    assert status == adbc.AdbcStatusCode.INTERNAL
    assert table.name in message


@pytest.mark.parametrize("damage", [cut, empty, Path.unlink])
def test_a_damaged_bloom_filter_does_no_harm(
    lake: Path, writers: WriterProcess, ask: Any, damage: Callable[[Path], None]
):
    name = f"filter_{damage.__name__}"
    table = LsmTable.create(lake, name, BASE, unpartitioned(("id",), 1), writers)
    table.put([{"id": 1, "n": 10}])
    table.close_writers()
    damage(table.generation_directory(region_of(table), 1) / "bloom_filter.bin")
    assert ask(f"SELECT n FROM {name} WHERE id = 1") == [(10,)]
    assert ask(f"SELECT n FROM {name} WHERE id = 2") == [(2,)]
