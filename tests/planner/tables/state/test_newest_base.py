"""The newest version of a base table is found, however little is asked for it."""

import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.base.table_mark import mark_table
from lance_gateway.memwal.errors import NotFoundError
from lance_gateway.memwal.storage.files import VERSIONS, Storage
from lance_gateway.planner.tables.state.newest_base import NewestBase
from tests.support.stores.faults import open_faulty_storage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lance.write_dataset(pa.table({"id": [1]}), tmp_path / "t.lance")
    return tmp_path / "t.lance"


def newest(path: Path) -> NewestBase:
    return NewestBase("t", Storage.open(str(path)), lance.Session())


def test_it_is_the_same_object_while_nothing_is_committed(path: Path) -> None:
    found = newest(path)
    first = found.find()
    assert all(found.find() is first for _ in range(3))


def test_while_nothing_is_committed_three_files_are_looked_at(path: Path) -> None:
    storage, backend = open_faulty_storage(path)
    found = NewestBase("t", storage, lance.Session())
    manifest = found.find().manifest
    assert manifest is not None
    found.find()
    backend.disarm()
    backend.calls.clear()
    found.find()
    ((call, paths),) = backend.calls
    looked_at = [storage.locate(one) for one in (VERSIONS, manifest.following, manifest.path)]
    assert (call, paths) == ("identities", " ".join(looked_at))


def test_every_commit_is_found_at_once(path: Path) -> None:
    found = newest(path)
    for number in range(30):
        assert found.find().version == number + 1
        lance.dataset(path).update_config({"number": str(number)})


def test_a_tagged_version_is_not_the_newest_because_the_next_one_was_cleaned_up(path: Path) -> None:
    found = newest(path)
    dataset = lance.dataset(path)
    dataset.tags.create("kept", 1)
    assert found.find().version == 1
    for number in range(3):
        dataset.update_config({"number": str(number)})
    dataset.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    kept = {one["version"] for one in lance.dataset(path).versions()}
    assert kept == {1, 4}
    assert found.find().version == 4


def test_a_manifest_that_was_written_over_is_another_table(path: Path, tmp_path: Path) -> None:
    """As when a backup is copied over a table: no file comes, and none goes."""
    backup = tmp_path / "backup.lance"
    lance.write_dataset(pa.table({"id": [1, 2, 3]}), backup)
    found = newest(path)
    first = found.find()
    found.find()
    (manifest,) = path.glob(f"{VERSIONS}/*.manifest")
    (other,) = backup.glob(f"{VERSIONS}/*.manifest")
    shutil.copytree(backup / "data", path / "data", dirs_exist_ok=True)
    manifest.write_bytes(other.read_bytes())
    second = found.find()
    assert second.place != first.place
    assert second.dataset.count_rows() == 3


def test_a_table_that_is_gone_is_not_found(path: Path) -> None:
    found = newest(path)
    found.find()
    found.find()
    shutil.rmtree(path)
    with pytest.raises(NotFoundError):
        found.find()


def test_a_marked_table_is_the_same_when_its_versions_were_cleaned_up(path: Path) -> None:
    mark_table(Storage.open(str(path)))
    found = newest(path)
    place = found.find().place
    for number in range(3):
        lance.dataset(path).update_config({"number": str(number)})
        lance.dataset(path).cleanup_old_versions(older_than=timedelta(0), retain_versions=1)
        assert found.find().place == place
    shutil.rmtree(path)
    lance.write_dataset(pa.table({"id": [1]}), path)
    mark_table(Storage.open(str(path)))
    assert found.find().place != place


def test_a_table_that_is_marked_later_is_the_same_from_the_next_version_on(path: Path) -> None:
    found = newest(path)
    place = found.find().place
    mark_table(Storage.open(str(path)))
    for number in range(3):
        lance.dataset(path).update_config({"number": str(number)})
        assert found.find().place == place
        lance.dataset(path).cleanup_old_versions(older_than=timedelta(0), retain_versions=1)
