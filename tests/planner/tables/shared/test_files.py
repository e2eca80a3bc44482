"""Files that processes share: whole or absent, within their budget, and for nobody else."""

import errno
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.planner.tables.shared import directory
from lance_gateway.planner.tables.shared.file_format import NAME_BYTES
from lance_gateway.planner.tables.shared.files import SharedFiles

BUDGET = 1 << 20
TYPES: tuple[pa.Array, ...] = (
    pa.array([1, None, 3], pa.int64()),
    pa.array([True, None, False]),
    pa.array(["a", None, "long text " * 100]),
    pa.array(["x", "y", None], pa.string_view()),
    pa.array([b"\0", b"", None], pa.large_binary()),
    pa.array([[1.5, 2.5], None, [3.5, 4.5]], pa.list_(pa.float32(), 2)),
    pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}]),
    pa.array([1, 2, None], pa.timestamp("us", "Europe/Berlin")),
    pa.array(["x", "y", "x"]).dictionary_encode(),
    pa.array([None, 1, 2], pa.decimal128(20, 3)),
)


def name(number: int) -> bytes:
    return number.to_bytes(NAME_BYTES, "big")


def batch(number: int, rows: int = 1000) -> pa.RecordBatch:
    return pa.record_batch({"v": np.full(rows, number, np.int64)})


def path_of(place: Path, number: int) -> Path:
    return place / name(number).hex()


def count_bytes(place: Path) -> int:
    return sum(one.stat().st_size for one in place.iterdir() if one.name != "state")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def open_files(place: Path) -> Iterator[Callable[..., SharedFiles]]:
    opened: list[SharedFiles] = []

    def open_place(budget: int = BUDGET) -> SharedFiles:
        opened.append(SharedFiles(place, budget))
        return opened[-1]

    yield open_place
    for one in opened:
        one.close()


@pytest.mark.parametrize("column", TYPES, ids=lambda column: str(column.type))
def test_another_process_reads_what_one_has_written(
    column: pa.Array, open_files: Callable[..., SharedFiles]
) -> None:
    written = pa.record_batch([column], names=[""])
    mapped = open_files().put(name(1), written)
    other = open_files()
    read = other.get(name(1))
    assert mapped is not None
    assert read is not None
    assert mapped.equals(written)
    assert read.equals(written)
    assert read.schema.equals(written.schema, check_metadata=True)
    assert (other.hits, other.misses) == (1, 0)


def test_files_are_mapped_and_not_copied(open_files: Callable[..., SharedFiles]) -> None:
    open_files(1 << 26).put(name(1), batch(1, 500_000))
    before = pa.total_allocated_bytes()
    read = open_files(1 << 26).get(name(1))
    assert read is not None
    assert pa.total_allocated_bytes() - before < 1 << 16
    assert read.column(0)[499_999].as_py() == 1


def test_what_is_absent_is_missed(open_files: Callable[..., SharedFiles]) -> None:
    files = open_files()
    assert files.get(name(1)) is None
    assert (files.hits, files.misses, files.damaged) == (0, 1, 0)


class TestDamage:
    """Whatever happened to a file, it is not there, and may be written again."""

    @pytest.fixture
    def file(self, place: Path, open_files: Callable[..., SharedFiles]) -> Path:
        open_files().put(name(1), batch(7))
        path = path_of(place, 1)
        path.chmod(0o600)
        return path

    def check_missed(self, files: SharedFiles, file: Path) -> None:
        assert files.get(name(1)) is None
        assert files.damaged == 1
        assert not file.exists()
        assert files.put(name(1), batch(8)) is not None
        read = files.get(name(1))
        assert read is not None
        assert read.equals(batch(8))
        assert files.read_totals().nbytes == -(-file.stat().st_size // 4096) * 4096

    @pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.5, 0.99, 0.9999])
    def test_it_was_cut_short(self, share: float, file: Path, open_files: Callable[..., SharedFiles]) -> None:
        os.truncate(file, int(file.stat().st_size * share))
        self.check_missed(open_files(), file)

    def test_something_was_appended(self, file: Path, open_files: Callable[..., SharedFiles]) -> None:
        with file.open("ab") as stream:
            stream.write(b"x")
        self.check_missed(open_files(), file)

    @pytest.mark.parametrize("at", [0, 7, 8, 31, 32, 40, 43, 64, 100, 300, 1000, 4096, 8000, -1])
    def test_a_byte_was_changed(self, at: int, file: Path, open_files: Callable[..., SharedFiles]) -> None:
        data = bytearray(file.read_bytes())
        data[at] ^= 0x10
        file.write_bytes(data)
        self.check_missed(open_files(), file)

    def test_a_page_is_empty(self, file: Path, open_files: Callable[..., SharedFiles]) -> None:
        data = bytearray(file.read_bytes())
        data[4096:8192] = bytes(4096)
        file.write_bytes(data)
        self.check_missed(open_files(), file)

    def test_it_is_the_file_of_another_name(
        self, place: Path, file: Path, open_files: Callable[..., SharedFiles]
    ) -> None:
        files = open_files()
        files.put(name(2), batch(9))
        path_of(place, 2).replace(file)
        assert files.get(name(1)) is None
        assert files.damaged == 1

    def test_it_is_a_link(
        self, place: Path, file: Path, tmp_path: Path, open_files: Callable[..., SharedFiles]
    ) -> None:
        file.rename(tmp_path / "elsewhere")
        path_of(place, 1).symlink_to(tmp_path / "elsewhere")
        assert open_files().get(name(1)) is None


class TestBudget:
    """All files together stay within it, whoever writes them."""

    def test_the_longest_unused_leave_first(
        self, place: Path, open_files: Callable[..., SharedFiles]
    ) -> None:
        files = open_files()
        assert files.put(name(0), batch(0)) is not None
        count = 1
        evictions = files.read_totals().evictions
        while files.read_totals().evictions == evictions:
            os.utime(path_of(place, count - 1), ns=(count, count))  # long ago, and in this order
            files.touch([name(0)])
            assert files.put(name(count), batch(count)) is not None
            count += 1
        left = files.list_names()
        assert name(0) in left  # it was used
        assert name(1) not in left
        assert name(count - 1) in left
        assert count_bytes(place) <= files.read_totals().nbytes <= BUDGET

    def test_a_reading_is_a_use(self, place: Path, open_files: Callable[..., SharedFiles]) -> None:
        files = open_files()
        files.put(name(0), batch(0))
        os.utime(path_of(place, 0), ns=(1, 1))
        files.get(name(0))
        assert path_of(place, 0).stat().st_mtime_ns > 1

    def test_what_was_evicted_stays_readable(self, open_files: Callable[..., SharedFiles]) -> None:
        files = open_files()
        first = files.put(name(0), batch(77))
        for number in range(1, 300):
            files.put(name(number), batch(number))
        assert name(0) not in files.list_names()
        assert first is not None
        assert first.equals(batch(77))

    def test_one_file_does_not_evict_all_others(self, open_files: Callable[..., SharedFiles]) -> None:
        files = open_files()
        files.put(name(0), batch(0))
        assert files.put(name(1), batch(1, BUDGET // 64 + 1)) is None
        assert files.list_names() == {name(0)}

    def test_a_smaller_budget_is_kept_from_the_start(
        self, place: Path, open_files: Callable[..., SharedFiles]
    ) -> None:
        files = open_files()
        for number in range(50):
            files.put(name(number), batch(number))
        smaller = open_files(BUDGET // 8)
        assert count_bytes(place) <= smaller.read_totals().nbytes <= BUDGET // 8

    def test_the_count_is_made_anew_where_it_was_lost(
        self, place: Path, open_files: Callable[..., SharedFiles]
    ) -> None:
        files = open_files()
        files.put(name(0), batch(0))
        known = files.read_totals().nbytes
        (place / "state").write_bytes(b"")
        assert open_files().read_totals().nbytes == known > 0

    def test_what_a_killed_process_left_is_removed(
        self, place: Path, open_files: Callable[..., SharedFiles]
    ) -> None:
        open_files()
        old, new = place / ".part-1-1", place / ".part-1-2"
        for one in (old, new):
            one.write_bytes(b"half")
        os.utime(old, (time.time() - 3600, time.time() - 3600))
        open_files()
        assert not old.exists()
        assert new.exists()  # somebody may still write it
        assert not open_files().list_names()

    @pytest.mark.slow
    @pytest.mark.soak
    def test_it_is_kept_by_processes_that_write_at_the_same_time(
        self, place: Path, open_files: Callable[..., SharedFiles]
    ) -> None:
        context = multiprocessing.get_context("spawn")
        writers = [context.Process(target=write_many, args=(place, number)) for number in range(3)]
        for one in writers:
            one.start()
        files = open_files()
        while any(one.is_alive() for one in writers):
            assert files.read_totals().nbytes <= BUDGET
        assert [one.exitcode for one in writers] == [0, 0, 0]
        assert count_bytes(place) <= files.read_totals().nbytes <= BUDGET

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
    def test_nothing_is_kept_on_a_full_disk(
        self, code: int, place: Path, open_files: Callable[..., SharedFiles], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> int:
            raise OSError(code, os.strerror(code))

        files = open_files()
        monkeypatch.setattr(os, "writev", refuse)
        assert files.put(name(0), batch(0)) is None
        assert files.read_totals().nbytes == 0
        assert [one.name for one in place.iterdir()] == ["state"]
        assert files.get(name(0)) is None

    def test_nothing_is_kept_in_a_directory_that_was_removed(
        self, place: Path, open_files: Callable[..., SharedFiles]
    ) -> None:
        files = open_files()
        (place / "state").unlink()
        place.rmdir()
        assert files.put(name(0), batch(0)) is None
        assert files.get(name(0)) is None


def write_many(place: Path, seed: int) -> None:
    files = SharedFiles(place, BUDGET)
    for number in range(400):
        files.put(name(seed * 1000 + number % 150), batch(number % 150))
        read = files.get(name((seed + 1) % 3 * 1000 + number % 150))
        assert read is None or read.equals(batch(number % 150))


def test_lookups_of_all_processes_are_counted(open_files: Callable[..., SharedFiles]) -> None:
    one, other = open_files(), open_files()
    one.put(name(0), batch(0))
    for files in (one, other):
        files.get(name(0))
        files.get(name(1))
        files.report_lookups()
        files.report_lookups()
    assert one.read_totals()[2:] == (2, 2)


class TestDirectory:
    """Rows lie there: no other user may look into it, or put something there."""

    def test_it_is_made_for_its_owner_alone(
        self, place: Path, open_files: Callable[..., SharedFiles]
    ) -> None:
        files = open_files()
        files.put(name(0), batch(0))
        assert place.stat().st_mode & 0o777 == 0o700
        assert path_of(place, 0).stat().st_mode & 0o777 == 0o400

    @pytest.mark.parametrize("mode", [0o701, 0o710, 0o755, 0o777, 0o1777])
    def test_others_may_not_enter_it(self, mode: int, place: Path) -> None:
        place.mkdir()
        place.chmod(mode)
        with pytest.raises(PreconditionError, match=r"cache\.directory .* others may enter it"):
            SharedFiles(place, BUDGET)

    def test_it_belongs_to_somebody_else(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        place.mkdir(mode=0o700)
        own = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
        with pytest.raises(PreconditionError, match=f"it belongs to user {own}, and this process runs as"):
            SharedFiles(place, BUDGET)

    def test_it_is_a_link(self, place: Path, tmp_path: Path) -> None:
        (tmp_path / "target").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "target")
        with pytest.raises(PreconditionError, match="it is a link"):
            SharedFiles(place, BUDGET)

    def test_it_is_a_file(self, place: Path) -> None:
        place.write_text("")
        with pytest.raises(PreconditionError, match="no directory"):
            SharedFiles(place, BUDGET)

    def test_by_default_it_lies_in_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        assert directory.find_default_directory() == tmp_path / "lance-gateway"
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "absent"))
        found = directory.find_default_directory()
        assert found is None or found == Path(f"/dev/shm/lance-gateway-{os.geteuid()}")
