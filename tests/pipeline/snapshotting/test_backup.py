"""A backup is the table as it was while others wrote to it; what is restored is a table like any other."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lance_gateway.gateway.cli import app
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.indexing import maintain
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from lance_gateway.pipeline.jobs.runners import Advance, ignore_progress
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import copies
from lance_gateway.pipeline.snapshotting.backup import back_up
from lance_gateway.pipeline.snapshotting.copies import list_backup_ids, read_backup
from lance_gateway.pipeline.snapshotting.restore import restore
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.identity_tables import with_bases
from tests.support.processes.gateways import EAGER, EngineGateway

CREATE = "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT) WITH (region_by = 'bucket(id, 2)')"
NO_GRACE = CleanPolicy(grace_seconds=0, retain_versions=1)
T = TableName("t")
Rows = dict[int, int]


@pytest.fixture
def place(tmp_path: Path) -> Storage:
    return Storage.open(str(tmp_path / "backups"))


@pytest.fixture
def other(tmp_path: Path) -> Storage:
    (tmp_path / "other").mkdir()
    return Storage.open(str(tmp_path / "other"))


@pytest.fixture
def open_gateway() -> Iterator[Callable[[Storage], EngineGateway]]:
    opened: list[EngineGateway] = []

    def make(root: Storage) -> EngineGateway:
        opened.append(EngineGateway(Catalog.open(root.uri, root.options, writing=EAGER)))
        return opened[-1]

    yield make
    for gateway in opened:
        gateway.close()


def read(gateway: EngineGateway, what: str = "t") -> Rows:
    found = gateway.read(f"SELECT id, v FROM {what}")
    rows: Rows = dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert len(rows) == found.num_rows
    return rows


def fill(gateway: EngineGateway, table: LakeTable | None = None) -> Rows:
    """Rows in the base table, in generations and in logs, some of them deleted; returns what there is."""
    rows: Rows = {}
    for value in range(3):
        ids = range(value * 5, value * 5 + 10)
        gateway.write("INSERT INTO t VALUES " + ", ".join(f"({one}, {value})" for one in ids))
        gateway.write(f"DELETE FROM t WHERE id = {value * 5}")
        rows = {one: kept for one, kept in (rows | dict.fromkeys(ids, value)).items() if one != value * 5}
        if value < 2:
            gateway.flush("t")
        if value == 0 and table is not None:
            merge(table)
    return rows


class TestUnderWrites:
    def test_each_key_is_as_it_was_while_the_backup_was_taken(
        self, root: Path, place: Storage, tmp_path: Path, open_gateway: Callable[[Storage], EngineGateway]
    ):
        """One writer, a merger, an indexer and a clean-up without any grace go on all the time."""
        lake, gateway = Lake.open(str(root)), open_gateway(Storage.open(str(root)))
        gateway.write(CREATE)
        table = lake.table("t")
        history: dict[int, list[tuple[int, int | None]]] = defaultdict(lambda: [(0, None)])
        acknowledged, is_over, written = [0], threading.Event(), threading.Semaphore(0)

        def write() -> None:
            for number in range(1, 100_000):
                if is_over.is_set():
                    return
                key = number * 7 % 24
                is_deleted = number % 5 == 0
                history[key].append((number, None if is_deleted else number))
                gateway.write(
                    f"DELETE FROM t WHERE id = {key}"
                    if is_deleted
                    else f"INSERT INTO t VALUES ({key}, {number})"
                )
                acknowledged[0] = number
                if number % 30 == 0:
                    gateway.flush("t")
                written.release()

        def keep() -> None:
            while not is_over.is_set():
                for job in (merge, maintain, lambda one: clean(one, NO_GRACE, delete=True)):
                    try:
                        job(table)
                    except UnavailableError:
                        continue  # The next round does it.

        threads = [threading.Thread(target=one) for one in (write, keep)]
        for one in threads:
            one.start()
        taken = []
        try:
            for _ in range(6):
                for _ in range(20):
                    assert written.acquire(timeout=60)
                before = acknowledged[0]
                report = back_up(table, place)
                taken.append((before, acknowledged[0] + 1, report))
        finally:
            is_over.set()
            for one in threads:
                one.join()
        for number, (before, after, report) in enumerate(taken):
            (tmp_path / f"restored-{number}").mkdir()
            restored = Storage.open(str(tmp_path / f"restored-{number}"))
            restore(place, report.backup, restored)
            rows = read(open_gateway(restored))
            for key, changes in history.items():
                first = max(at for at, (when, _) in enumerate(changes) if when <= before)
                possible = [value for when, value in changes[first:] if when <= after]
                assert rows.get(key) in possible, f"key {key} of backup {number}, {before} to {after}: {rows}"
            assert rows.keys() <= history.keys()

    def test_files_that_are_cleaned_meanwhile_are_looked_for_anew(
        self, root: Path, place: Storage, other: Storage, open_gateway: Callable[[Storage], EngineGateway]
    ):
        gateway = open_gateway(Storage.open(str(root)))
        gateway.write(CREATE)
        table = Lake.open(str(root)).table("t")
        rows = fill(gateway)
        attempts = []

        @contextmanager
        def overtaken(title: str, total: int, unit: str) -> Iterator[Advance]:
            attempts.append(total)
            if len(attempts) == 1:
                merge(table)
                clean(table, NO_GRACE, delete=True)
                clean(table, NO_GRACE, delete=True)
            with ignore_progress(title, total, unit) as advance:
                yield advance

        report = back_up(table, place, progress=overtaken)
        assert len(attempts) == 2
        restore(place, report.backup, other)
        assert read(open_gateway(other)) == rows


class TestRestored:
    def test_a_restored_table_is_written_merged_and_read_like_any_other(
        self, root: Path, place: Storage, other: Storage, open_gateway: Callable[[Storage], EngineGateway]
    ):
        gateway = open_gateway(Storage.open(str(root)))
        gateway.write(CREATE)
        table = Lake.open(str(root)).table("t")
        rows = fill(gateway, table)
        restore(place, back_up(table, place).backup, other)
        for one in (0, 6, 99):  # The original goes on, which the copy does not see.
            gateway.write(f"INSERT INTO t VALUES ({one}, -1)")

        copy = open_gateway(other)
        assert read(copy) == rows
        copy.write("INSERT INTO t VALUES (6, 60), (7, 70), (100, 1)")
        copy.write("DELETE FROM t WHERE id IN (8, 100)")
        rows = {key: value for key, value in (rows | {6: 60, 7: 70}).items() if key != 8}
        assert read(copy) == rows
        copied = Lake(other).table("t")
        for step in (lambda: copy.flush("t"), lambda: merge(copied), lambda: maintain(copied)):
            step()
            assert read(copy) == rows
        clean(copied, NO_GRACE, delete=True)
        assert read(copy) == rows
        assert read(copy, "t WHERE id = 6") == {6: 60}

    def test_its_past_and_its_tags_are_there(
        self, root: Path, place: Storage, other: Storage, open_gateway: Callable[[Storage], EngineGateway]
    ):
        gateway = open_gateway(Storage.open(str(root)))
        gateway.write(CREATE)
        table = Lake.open(str(root)).table("t")
        fill(gateway, table)
        gateway.write("CREATE TAG before ON t")
        gateway.write("DELETE FROM t WHERE id < 100")
        gateway.flush("t")
        merge(table)
        restore(place, back_up(table, place).backup, other)
        copy = open_gateway(other)
        assert read(copy) == {}
        for when in ("VERSION AS OF 'before'", "VERSION AS OF 2", "VERSION AS OF 1"):
            assert read(copy, f"t FOR {when}") == read(gateway, f"t FOR {when}"), when
        assert read(copy, "t FOR VERSION AS OF 'before'")

    def test_a_table_without_mem_wal(self, root: Path, place: Storage, other: Storage):
        lance.write_dataset(pa.table({"a": [1, 2]}), root / "plain.lance")
        report = back_up(Lake.open(str(root)).table("plain"), place)
        restore(place, report.backup, other, TableName("again", "sales"))
        assert lance.dataset(f"{other.root}/sales/again.lance").to_table() == pa.table({"a": [1, 2]})

    def test_what_a_restore_left_that_was_cut_short_is_not_taken_for_the_tables(
        self, root: Path, place: Storage, other: Storage, open_gateway: Callable[[Storage], EngineGateway]
    ):
        gateway = open_gateway(Storage.open(str(root)))
        gateway.write(CREATE)
        table = Lake.open(str(root)).table("t")
        rows = fill(gateway, table)
        earlier = back_up(table, place).backup
        gateway.write("INSERT INTO t VALUES (500, 1)")
        later = back_up(table, place).backup

        @contextmanager
        def dying(_title: str, _total: int, _unit: str) -> Iterator[Advance]:
            left = [sum(not file.path.startswith("_versions/") for file in later.files) // 2]

            def advance(done: int) -> None:
                left[0] -= done
                if left[0] < 0:
                    raise KeyboardInterrupt

            yield advance

        with pytest.raises(KeyboardInterrupt):
            restore(place, later, other, progress=dying)
        assert not Lake(other).storage.list("t.lance/_versions")
        restore(place, earlier, other)
        assert read(open_gateway(other)) == rows


class TestIncrements:
    def test_files_are_copied_once(
        self, root: Path, place: Storage, open_gateway: Callable[[Storage], EngineGateway]
    ):
        gateway = open_gateway(Storage.open(str(root)))
        gateway.write(CREATE)
        table = Lake.open(str(root)).table("t")
        fill(gateway, table)
        first = back_up(table, place)
        assert len(first.copied) == len(first.backup.files)
        assert back_up(table, place).copied == ()
        gateway.write("INSERT INTO t VALUES (1, 77)")
        (new,) = back_up(table, place).copied
        assert "/wal/" in new.path
        assert len(list_backup_ids(place, T)) == 3
        assert read_backup(place, T, first.backup.backup_id) == first.backup

    def test_a_table_that_was_made_anew_shares_no_file_with_the_one_before(
        self, root: Path, place: Storage, other: Storage, open_gateway: Callable[[Storage], EngineGateway]
    ):
        gateway = open_gateway(Storage.open(str(root)))
        gateway.write(CREATE)
        fill(gateway)
        old = back_up(Lake.open(str(root)).table("t"), place)
        gateway.write("DROP TABLE t")
        gateway.write(CREATE)
        gateway.write("INSERT INTO t VALUES (1, 5)")
        new = back_up(Lake.open(str(root)).table("t"), place)
        assert len(new.copied) == len(new.backup.files)
        assert not set(new.backup.files) & set(old.backup.files)
        restore(place, new.backup, other)
        assert read(open_gateway(other)) == {1: 5}


class TestRefusals:
    @pytest.fixture
    def taken(self, root: Path, place: Storage) -> LakeTable:
        lance.write_dataset(pa.table({"a": [1, 2]}), root / "t.lance")
        table = Lake.open(str(root)).table("t")
        back_up(table, place)
        return table

    def test_a_table_that_exists_is_not_touched(self, root: Path, place: Storage, taken: LakeTable):
        with pytest.raises(AlreadyExistsError, match=r"table 't' exists in .* restore under another name"):
            restore(place, read_backup(place, T), Storage.open(str(root)))
        assert taken.dataset().count_rows() == 2

    @pytest.mark.parametrize("name", [TableName("x", "system"), TableName("a/b"), TableName(".")])
    @pytest.mark.usefixtures("taken")
    def test_names_that_no_table_can_have(self, place: Storage, other: Storage, name: TableName):
        with pytest.raises(InvalidInputError, match="choose another one with --as"):
            restore(place, read_backup(place, T), other, name)

    @pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"x")])
    @pytest.mark.usefixtures("taken")
    def test_a_damaged_copy(self, place: Storage, other: Storage, damage: Callable[[Path], object]):
        backup = read_backup(place, T)
        victim = next(file for file in backup.files if file.path.startswith("data/"))
        damage(Path(place.root) / "t.backup" / victim.stored_at)
        with pytest.raises(
            CorruptDataError, match=f"is damaged: .*{victim.path}.* should have {victim.size}"
        ):
            restore(place, backup, other)
        assert not other.list()

    @pytest.mark.usefixtures("taken")
    def test_a_backup_of_a_later_version(self, place: Storage, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(copies, "FORMAT", 0)
        with pytest.raises(UnsupportedError, match=r"has format 1, made by lance-gateway .* reads format 0"):
            read_backup(place, T)

    @pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"format": 1, "made_by": "", "files": [[]]}'])
    @pytest.mark.usefixtures("taken")
    def test_a_list_that_is_none(self, place: Storage, content: bytes):
        place.put("t.backup/9.json", content)
        with pytest.raises(CorruptDataError, match=r"9\.json .* is not a list of a backup"):
            read_backup(place, T)

    @pytest.mark.usefixtures("taken")
    def test_backups_that_are_not_there(self, place: Storage):
        with pytest.raises(NotFoundError, match=r"no backup of table 'u' in .*: it has backups of t"):
            read_backup(place, TableName("u"))
        with pytest.raises(NotFoundError, match=r"no backup 'x' of table 't' in .*: there are 2"):
            read_backup(place, T, "x")

    def test_a_clone_that_consists_of_files_of_another_table(self, root: Path, place: Storage):
        source = lance.write_dataset(pa.table({"a": [1, 2]}), root / "t.lance")
        source.shallow_clone(str(root / "clone.lance"), source.version)
        with pytest.raises(PreconditionError, match=r"'clone' has files that lie elsewhere .* CREATE TABLE"):
            back_up(Lake.open(str(root)).table("clone"), place)

    def test_a_table_in_several_bases(self, root: Path, place: Storage):
        with_bases(root)
        with pytest.raises(PreconditionError, match=r"'t' has files that lie elsewhere \(.*t_one, .*t_two\)"):
            back_up(Lake.open(str(root)).table("t"), place)


def run(*arguments: str) -> tuple[int, str]:
    """Run a command; return its status, and what it says on both outputs."""
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output


def test_all_tables_with_views_and_schemas(
    root: Path,
    tmp_path: Path,
    place: Storage,
    other: Storage,
    open_gateway: Callable[[Storage], EngineGateway],
):
    gateway = open_gateway(Storage.open(str(root)))
    gateway.write(CREATE)
    rows = fill(gateway)
    gateway.write("CREATE SCHEMA sales")
    gateway.write("CREATE SCHEMA empty")
    gateway.write("CREATE TABLE sales.u AS SELECT * FROM t")
    gateway.write("CREATE VIEW sales.few AS SELECT * FROM sales.u WHERE v = 1")
    assert run("backup", place.uri, "--root", str(root))[0] == 1
    assert run("backup", "t", place.uri, "--all", "--root", str(root))[0] == 1
    status, said = run("backup", "--all", place.uri, "--root", str(root), "--json")
    assert (status, [json.loads(line)["table"] for line in said.splitlines()]) == (0, ["sales.u", "t"])
    status, said = run("restore", place.uri, "--root", other.uri)
    assert (status, said.count(": restored from backup ")) == (0, 2)
    copy = open_gateway(other)
    assert read(copy) == read(copy, "sales.u") == rows
    assert read(copy, "sales.few") == {key: value for key, value in rows.items() if value == 1}
    schemas = "SELECT schema_name FROM information_schema.schemata WHERE schema_name IN ('sales', 'empty')"
    assert copy.read(schemas).num_rows == 2

    status, said = run("restore", place.uri, "sales.u", "--as", "again", "--root", other.uri)
    assert (status, read(copy, "again")) == (0, rows)
    status, said = run("restore", place.uri, "t", "--root", other.uri)
    assert (status, "error: table 't' exists in" in said) == (1, True)
    status, said = run("restore", place.uri, "--list", "--root", other.uri)
    assert (status, len(said.splitlines())) == (0, 3)
    assert run("restore", place.uri, "--as", "x", "--root", other.uri)[0] == 1
    assert run("restore", str(tmp_path / "nothing"), "--root", other.uri)[0] == 1


@pytest.mark.slow
@pytest.mark.soak
def test_on_s3(
    root: Path,
    s3_location: tuple[str, Mapping[str, str]],
    open_gateway: Callable[[Storage], EngineGateway],
):
    """From a disk to S3, from there to a root on S3, and once more from that."""
    uri, options = s3_location
    gateway = open_gateway(Storage.open(str(root)))
    gateway.write(CREATE)
    table = Lake.open(str(root)).table("t")
    rows = fill(gateway, table)
    gateway.write("CREATE TABLE large AS SELECT value AS a, repeat('x', 900) || value AS b FROM range(12000)")
    place, lake = Storage.open(f"{uri}/backups", options), Storage.open(f"{uri}/lake", options)
    lake.put("made", b"")
    for name in ("t", "large"):
        report = back_up(Lake.open(str(root)).table(name), place)
        restore(place, report.backup, lake)
        assert back_up(Lake.open(str(root)).table(name), place).copied == ()
    copy = open_gateway(lake)
    assert read(copy) == rows
    copy.write("INSERT INTO t VALUES (1000, 1)")
    assert read(copy) == rows | {1000: 1}
    sums = "SELECT count(*), sum(a), sum(length(b)) FROM large"
    assert copy.read(sums).to_pylist() == gateway.read(sums).to_pylist()
    again = back_up(Lake(lake).table("t"), place)
    restore(place, again.backup, lake, TableName("again"))
    assert read(copy, "again") == rows | {1000: 1}
