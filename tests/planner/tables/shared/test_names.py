"""Names of shared files: equal in all processes for equal content, and different for any other."""

import itertools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.execnodes.storage.data_files import (
    BasePath,
    Columns,
    DataFileId,
    Deletions,
    FragmentFiles,
    Place,
)
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.tables.shared.names import FileStamp, LocalOrigin, StoreOrigin, digest, find_origin


@dataclass(frozen=True)
class One:
    first: object
    second: object = None


@dataclass(frozen=True)
class Other:
    first: object
    second: object = None


KEYS = (
    One(1),
    One("1"),
    One(b"1"),
    One(True),
    One(None),
    One(""),
    One(b""),
    One(()),
    One(((),)),
    One((None,)),
    One(-1),
    Other(1),
    One(1, 1),
    One(11),
    One("a", "bc"),
    One("ab", "c"),
    One(("a", "b"), "c"),
    One(("a",), ("b", "c")),
    One(("a", "b", "c")),
    One(One(1)),
    One(pa.int64()),
    One("int64"),
    One(pa.timestamp("us")),
    One(pa.timestamp("us", "UTC")),
    One(pa.list_(pa.int8())),
    One(pa.list_(pa.field("item", pa.int8(), nullable=False))),
    One(pa.list_(pa.field("other", pa.int8()))),
    One(pa.struct([pa.field("a", pa.int8(), metadata={"k": "v"})])),
    One(pa.struct([pa.field("a", pa.int8())])),
    Columns(((0, "id", pa.int64()),)),
    Columns(((1, "id", pa.int64()),)),
    Columns(((0, "id", pa.int32()),)),
)


def test_different_keys_have_different_names() -> None:
    names = [digest(key) for key in KEYS]
    for (one, first), (other, second) in itertools.combinations(zip(KEYS, names, strict=True), 2):
        assert first != second, (one, other)


def test_equal_keys_have_equal_names_in_every_process() -> None:
    code = (
        "from tests.planner.tables.shared.test_names import KEYS, digest\n"
        "print(*[digest(key).hex() for key in KEYS])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    printed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == [digest(key).hex() for key in KEYS]


@pytest.mark.parametrize("value", [1.5, [1], {1: 2}, object()], ids=lambda value: type(value).__name__)
def test_a_name_depends_on_nothing_vague(value: object) -> None:
    with pytest.raises(TypeError, match="a name can't depend on"):
        digest(One(value))


def await_stamp(path: Path) -> FileStamp:
    while (stamp := FileStamp.of(str(path))) is None:
        pass
    return stamp


class TestStamps:
    """A file that took the place of another one is another file."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "part.lance"
        path.write_bytes(b"old")
        return path

    def test_a_file_keeps_its_stamp(self, file: Path) -> None:
        assert await_stamp(file) == await_stamp(file)

    def test_a_new_file_is_not_certain_yet(self, file: Path) -> None:
        assert FileStamp.of(str(file)) is None  # the clock of the file system may not have ticked

    def test_no_file_has_no_stamp(self, file: Path) -> None:
        assert FileStamp.of(f"{file}.absent") is None

    def test_written_over_with_its_time_set_back(self, file: Path) -> None:
        before, times = await_stamp(file), file.stat()
        file.write_bytes(b"new")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        after = await_stamp(file)
        assert (after.inode, after.size, after.written) == (before.inode, before.size, before.written)
        assert after != before

    def test_replaced_with_the_same_time_and_size(self, file: Path, tmp_path: Path) -> None:
        before, times = await_stamp(file), file.stat()
        other = tmp_path / "other"
        other.write_bytes(b"new")
        os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
        other.replace(file)
        assert await_stamp(file) != before

    def test_a_copy_is_another_file(self, file: Path, tmp_path: Path) -> None:
        shutil.copy2(file, tmp_path / "copy")
        assert await_stamp(tmp_path / "copy") != await_stamp(file)


def data_file(name: str = "a.lance", base: BasePath | None = None) -> DataFileId:
    return DataFileId(base, name, 3, (2, 1), (0,), (0,))


class TestOrigin:
    """Rows have a name if it is certain that no others can ever have it."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        for name in ("data/a.lance", "data/b.lance", "_deletions/0-1-2.arrow"):
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(b"old")
        for name in ("data/a.lance", "data/b.lance", "_deletions/0-1-2.arrow"):
            await_stamp(tmp_path / name)
        return tmp_path

    @pytest.fixture
    def origin(self, path: Path) -> LocalOrigin:
        return LocalOrigin(Storage.open(str(path)), lambda: True)

    def files(self, *files: DataFileId, number: int = 0) -> FragmentFiles:
        return FragmentFiles(Place("x", number), files)

    def test_the_number_of_the_table_does_not_matter(self, origin: LocalOrigin) -> None:
        one, other = (origin.name_rows(self.files(data_file(), number=number)) for number in (1, 2))
        assert one == other is not None

    def test_the_file_matters(self, origin: LocalOrigin, path: Path) -> None:
        before = origin.name_rows(self.files(data_file()))
        assert before != origin.name_rows(self.files(data_file("b.lance"))) is not None
        (path / "data/a.lance").write_bytes(b"new")
        assert origin.name_rows(self.files(data_file())) is None
        await_stamp(path / "data/a.lance")
        assert origin.name_rows(self.files(data_file())) not in (before, None)

    def test_overlays_matter(self, origin: LocalOrigin) -> None:
        plain = origin.name_rows(self.files(data_file()))
        layered = [
            origin.name_rows(FragmentFiles(Place("x", 0), (data_file(),), ((data_file("b.lance"), at),)))
            for at in (1, 2, None)
        ]
        assert len({plain, *layered, None}) == 5

    @pytest.mark.parametrize(
        "file",
        [
            data_file(base=BasePath("/elsewhere", is_dataset_root=False)),
            data_file("../data/a.lance"),
            data_file("/data/a.lance"),
            data_file("absent.lance"),
        ],
        ids=lambda file: file.path,
    )
    def test_files_elsewhere_have_no_name(self, file: DataFileId, origin: LocalOrigin) -> None:
        assert origin.name_rows(self.files(file)) is None
        assert origin.name_rows(FragmentFiles(Place("x", 0), (data_file(),), ((file, 1),))) is None

    def test_nothing_has_a_name_where_the_table_may_be_another(self, path: Path) -> None:
        origin = LocalOrigin(Storage.open(str(path)), lambda: False)
        assert origin.name_rows(self.files(data_file())) is None
        assert origin.name_deletions(Deletions(0, None, 1, 2, "array")) is None

    def test_deletions(self, origin: LocalOrigin, path: Path) -> None:
        stored = Deletions(0, None, 1, 2, "array")
        before = origin.name_deletions(stored)
        assert before == origin.name_deletions(stored) is not None
        assert origin.name_deletions(Deletions(0, None, 1, 3, "array")) is None
        assert origin.name_deletions(Deletions(0, None, 1, 2, "unknown")) is None
        assert (
            origin.name_deletions(Deletions(0, BasePath("/x", is_dataset_root=True), 1, 2, "array")) is None
        )
        file = path / "_deletions/0-1-2.arrow"
        file.write_bytes(b"new")
        await_stamp(file)
        assert origin.name_deletions(stored) not in (before, None)

    def test_local_files_of_an_unknown_table_have_no_origin(self, path: Path) -> None:
        assert find_origin(Storage.open(str(path)), b"", None) is None


class TestObjects:
    """Objects are identified by their store, path and table, and by their entry in its manifest."""

    def origin(self, uri: str = "s3://bucket/t", table_id: bytes = b"", **options: str) -> StoreOrigin:
        origin = find_origin(Storage.open(uri, options), table_id, None)
        assert isinstance(origin, StoreOrigin)
        return origin

    def test_each_part_of_a_name_matters(self) -> None:
        stored, deletions = FragmentFiles(Place("x", 0), (data_file(),)), Deletions(0, None, 1, 2, "array")
        origins = [
            self.origin(),
            self.origin("s3://bucket/u"),
            self.origin("s3://other/t"),
            self.origin(table_id=b"made again"),
            self.origin(aws_endpoint="http://127.0.0.1:1"),
        ]
        names = [origin.name_rows(stored) for origin in origins]
        names += [
            self.origin().name_rows(FragmentFiles(Place("x", 0), (data_file("b.lance"),))),
            self.origin().name_rows(FragmentFiles(Place("x", 0), (replace(data_file(), size=4),))),
            self.origin().name_rows(FragmentFiles(Place("x", 0), (data_file(),), ((data_file(), 1),))),
            self.origin().name_deletions(deletions),
            self.origin().name_deletions(replace(deletions, id=3)),
        ]
        assert len({None, *names}) == len(names) + 1

    def test_keys_and_the_number_of_the_table_do_not_matter(self) -> None:
        names = {
            self.origin(aws_access_key_id=key, aws_secret_access_key=key).name_rows(
                FragmentFiles(Place("x", number), (data_file(),))
            )
            for number, key in enumerate(("one", "other"))
        }
        assert len(names) == 1

    @pytest.mark.parametrize(
        "file",
        [
            data_file(base=BasePath("s3://elsewhere", is_dataset_root=False)),
            data_file("../data/a.lance"),
            replace(data_file(), size=None),
        ],
        ids=["in another base", "above", "of unknown size"],
    )
    def test_what_can_be_another_file_has_no_name(self, file: DataFileId) -> None:
        assert self.origin().name_rows(FragmentFiles(Place("x", 0), (file,))) is None
