"""Storage behaves the same over a local directory and over S3."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnavailableError, UnsupportedError
from lance_gateway.memwal.storage.files import (
    Entry,
    Storage,
    base_manifest_paths,
    find_last_in_sequence,
    parse_base_manifest_version,
)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "local":
        yield Storage.open(str(tmp_path / "t #1 é%20.lance"))
    else:
        uri, options = request.getfixturevalue("s3_location")
        yield Storage.open(f"{uri}/t.lance", options)


def test_a_file_reads_back_as_it_was_put(storage: Storage):
    storage.put("a/b.bin", b"one")
    storage.put("a/b.bin", b"two")
    assert storage.read("a/b.bin") == b"two"


def test_an_absent_file_is_not_found(storage: Storage):
    with pytest.raises(FileNotFoundError):
        storage.read("a/b.bin")


def test_existence_is_told_for_each_path(storage: Storage):
    storage.put("a/1", b"")
    storage.put("a/3", b"x")
    assert storage.exists("a/1", "a/2", "a/3", "a/1/2") == (True, False, True, False)
    assert storage.exists("a/3") == (True,)
    assert storage.exists() == ()


def test_a_directory_lists_its_entries_by_name(storage: Storage):
    storage.put("top", b"12")
    storage.put("dir/inner", b"1")
    assert storage.list() == (Entry("dir", is_dir=True, size=0), Entry("top", is_dir=False, size=2))
    assert storage.list("dir") == (Entry("inner", is_dir=False, size=1),)


def test_the_directories_of_a_directory_are_named_without_its_files(storage: Storage):
    for path in ("top/file", "top/b/inner", "top/a/deep/er"):
        storage.put(path, b"1")
    assert sorted(storage.directories("top")) == ["a", "b"]
    assert storage.directories() == ("top",)


@pytest.mark.slow
def test_the_mark_of_a_directory_is_none_of_its_entries(s3_location: tuple[str, dict[str, str]]):
    uri, options = s3_location
    storage = Storage.open(f"{uri}/t.lance", options)
    storage.put("dir/inner/file", b"1")
    import boto3  # noqa: PLC0415 - takes a second, for S3 tests only

    bucket, _, key = uri.removeprefix("s3://").partition("/")
    boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
        region_name=options["aws_region"],
    ).put_object(Bucket=bucket, Key=f"{key}/t.lance/dir/")
    assert storage.list("dir") == (Entry("inner", is_dir=True, size=0),)
    assert key in Storage.open(f"s3://{bucket}", options).directories()


def test_an_absent_directory_lists_nothing(storage: Storage):
    assert storage.list() == ()
    assert storage.list("nowhere") == ()
    assert storage.directories("nowhere") == ()


def test_an_entry_that_vanishes_while_its_directory_is_listed_is_left_out(tmp_path: Path):
    (tmp_path / "kept").write_bytes(b"1")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    assert Storage.open(str(tmp_path)).list() == (Entry("kept", is_dir=False, size=1),)


def test_a_file_is_created_only_once(storage: Storage):
    assert storage.put_if_absent("m/1", b"first")
    assert not storage.put_if_absent("m/1", b"second")
    assert storage.read("m/1") == b"first"
    assert [entry.name for entry in storage.list("m")] == ["1"]


def test_one_of_many_racers_creates_the_file(storage: Storage):
    with ThreadPoolExecutor(8) as racers:
        won = list(racers.map(lambda racer: storage.put_if_absent("m/1", b"%d" % racer), range(16)))
    assert won.count(True) == 1
    assert storage.read("m/1") == b"%d" % won.index(True)


def test_a_child_is_a_storage_of_its_own(storage: Storage):
    storage.put("a/b/c", b"x")
    child = storage.child("a", "b")
    assert child.read("c") == b"x"
    assert child.uri == f"{storage.uri}/a/b"
    assert child.options == storage.options
    assert child == storage.child("a/b/")
    assert len({child, storage.child("a/b")}) == 1


def test_each_answers_in_order_and_raises_the_first_error(storage: Storage):
    storage.put("1", b"one")
    storage.put("2", b"two")
    assert storage.each(storage.read, ["2", "1", "2"]) == (b"two", b"one", b"two")
    with pytest.raises(FileNotFoundError):
        storage.each(storage.read, ["1", "3"])


@pytest.mark.parametrize("part", ["", "/etc", "..", "a/../../b"])
def test_a_child_does_not_lead_out_of_its_directory(tmp_path: Path, part: str):
    with pytest.raises(InvalidInputError, match="not a path below"):
        Storage.open(str(tmp_path)).child(part)


def test_local_locations_may_be_relative_or_file_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    expected = Storage.open(str(tmp_path / "a b.lance"))
    assert Storage.open("a b.lance") == expected
    assert Storage.open(f"file://{tmp_path}/a%20b.lance/") == expected
    assert expected.uri == str(tmp_path / "a b.lance")


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        ("", InvalidInputError, "empty"),
        ("s3:///t.lance", InvalidInputError, "names no bucket"),
        ("ftp://bucket/t.lance", UnsupportedError, "'ftp' is not supported; use a local path, s3://"),
        ("s3+ddb:///t.lance?ddbTableName=commits", InvalidInputError, "names no bucket"),
        (
            "s3+ddb://bucket/t.lance",
            InvalidInputError,
            r"names no DynamoDB table: write s3\+ddb://bucket/path",
        ),
        ("s3+ddb://bucket/t.lance?ddbTableName=", InvalidInputError, "names no DynamoDB table"),
    ],
)
def test_a_senseless_location_is_refused(uri: str, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        Storage.open(uri)


def test_a_directory_in_place_of_a_file_is_reported_with_its_path(tmp_path: Path):
    (tmp_path / "file").mkdir()
    with pytest.raises(UnavailableError, match=f"{tmp_path}/file.*retry"):
        Storage.open(str(tmp_path)).read("file")


@pytest.mark.slow
def test_a_bucket_that_does_not_exist_is_reported_on_writing(s3_location: tuple[str, dict[str, str]]):
    _, options = s3_location
    with pytest.raises(UnavailableError, match=r"no-such-bucket/t\.lance/a"):
        Storage.open("s3://no-such-bucket/t.lance", options).put("a", b"")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 200])
def test_a_sequence_ends_where_a_file_is_missing(tmp_path: Path, count: int):
    table = Storage.open(str(tmp_path))
    for number in (*range(1, count + 1), count + 2):
        table.put(f"{number}", b"")
    assert find_last_in_sequence(table, str, 0) == count
    assert find_last_in_sequence(table, str, count) == count


@pytest.mark.parametrize("version", [1, 7, 2**40])
def test_both_names_of_a_base_manifest_give_its_version(version: int):
    for path in base_manifest_paths(version):
        assert parse_base_manifest_version(path.removeprefix("_versions/")) == version


@pytest.mark.parametrize("name", ["d7.manifest", "7", "7.manifest.tmp", "hint.json", ".manifest"])
def test_other_files_are_no_base_manifests(name: str):
    assert parse_base_manifest_version(name) is None
