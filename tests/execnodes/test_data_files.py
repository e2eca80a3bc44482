"""What tells stored rows from others: every part of what Lance says of their files."""

import gc
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.execnodes.storage.data_files import (
    BasePath,
    Columns,
    Deletions,
    FragmentFiles,
    Place,
    list_bases,
)

BASES = {1: BasePath("s3://b/one", True), 2: BasePath("s3://b/two", False)}


def data_file(**changes: Any) -> Any:
    """As Lance describes a data file."""
    told = {
        "base_id": 1,
        "_path": "f.lance",
        "file_size_bytes": 100,
        "file_major_version": 2,
        "file_minor_version": 1,
        "fields": [0, 1],
        "column_indices": [0, 2],
    }
    return SimpleNamespace(**told | changes)


@pytest.mark.parametrize(
    "change",
    [
        {"base_id": None},
        {"base_id": 2},
        {"_path": "g.lance"},
        {"file_size_bytes": 101},
        {"file_size_bytes": None},
        {"file_major_version": 3},
        {"file_minor_version": 0},
        {"fields": [0, 2]},
        {"column_indices": [0, 1]},
    ],
    ids=repr,
)
def test_what_is_stored_changes_with_everything_that_tells_a_file(change: dict[str, Any]) -> None:
    place = Place.new("memory://t")

    def files(*stored: Any, overlays: Sequence[tuple[Any, int]] = (), of: Place = place) -> FragmentFiles:
        over = [SimpleNamespace(data_file=file, committed_version=since) for file, since in overlays]
        return FragmentFiles.of(SimpleNamespace(files=stored, overlays=over), of, BASES)

    one, other = data_file(), data_file(**change)
    assert files(one) == files(data_file())
    assert files(one) is files(data_file())
    different = [
        files(one),
        files(other),
        files(one, other),
        files(other, one),
        files(one, overlays=[(other, 3)]),
        files(one, overlays=[(one, 3)]),
        files(one, overlays=[(one, 4)]),
        files(one, of=Place.new("memory://t")),
        files(one, of=place.below("gen")),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(
    "change",
    [{"base_id": None}, {"base_id": 2}, {"read_version": 8}, {"id": 4}, {"file_type": "bitmap"}],
    ids=repr,
)
def test_deletions_are_told_by_the_name_of_their_file(change: dict[str, Any]) -> None:
    def deletions(fragment_id: int, **changes: Any) -> Deletions | None:
        told = {"base_id": 1, "read_version": 7, "id": 3, "file_type": "array"}
        file = SimpleNamespace(**told | changes)
        return Deletions.of(SimpleNamespace(id=fragment_id, deletion_file=file), BASES)

    assert deletions(1) == deletions(1)
    assert len({deletions(1), deletions(2), deletions(1, **change)}) == 3
    assert Deletions.of(SimpleNamespace(id=1, deletion_file=None), BASES) is None


def test_bases_are_told_by_their_paths_and_by_where_files_lie_in_them() -> None:
    told = {
        1: SimpleNamespace(path="s3://b/one", is_dataset_root=True),
        2: SimpleNamespace(path="s3://b/two", is_dataset_root=False),
    }
    assert list_bases(SimpleNamespace(base_paths=lambda: told)) == BASES


def test_a_place_below_another_is_of_the_same_table() -> None:
    one, other = Place.new("memory://t"), Place.new("memory://t")
    assert one != other
    assert one.below("gen") == one.below("gen")
    assert len({one.below("gen"), other.below("gen"), one.below("other"), one}) == 4
    assert Place.unknown() != Place.unknown()


@pytest.mark.slow
def test_a_name_is_one_object_as_long_as_it_is_in_use() -> None:
    fields = [(1, "a", pa.int64()), (2, "b", pa.list_(pa.string()))]
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: Columns.of(fields), range(64)))
    assert len(set(map(id, made))) == 1
    assert Columns.of(fields[:1]) != made[0]
    gone = weakref.ref(made[0])
    made.clear()
    gc.collect()
    assert gone() is None
    assert Columns.of(fields).fields == tuple(fields)
