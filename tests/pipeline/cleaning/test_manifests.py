"""Manifests of regions are emptied, never removed: what is committed on an old one is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.regions.manifest import commit_manifest, read_latest_manifest
from lance_gateway.pipeline.cleaning import CleanPolicy, Kind, clean
from tests.support.lake import manifests
from tests.support.lake.cleaning import CleanedTable, Open, filter_kind


def test_manifests_are_emptied_once_no_version_is_read_by_them(kept: CleanedTable):
    newest = manifests.find_newest_version(kept.path, kept.region)
    assert not filter_kind(kept.find(CleanPolicy()), Kind.MANIFESTS), "all versions are kept"
    kept.clean()
    sizes = {
        version: manifests.build_manifest_path(kept.path, kept.region, version).stat().st_size
        for version in range(1, newest + 2)
    }
    emptied = [version for version, size in sizes.items() if not size]
    assert emptied == list(range(1, emptied[-1] + 1))
    assert emptied[-1] < newest - 1
    assert not filter_kind(kept.find(), Kind.MANIFESTS)


@pytest.mark.slow
@pytest.mark.parametrize("hint", ['{"version":1}', '{"version":2}', "", None])
def test_an_old_hint_or_none_leads_to_the_newest_manifest(
    kept: CleanedTable, root: Path, open_engine: Open, hint: str | None
):
    """As whoever was stopped before it wrote its hint leaves it, and storage that fails to read it."""
    kept.clean()
    epoch = manifests.read_manifest(kept.path, kept.region).writer_epoch
    path = manifests.build_manifest_path(kept.path, kept.region, 1).with_name("version_hint.json")
    path.unlink()
    if hint is not None:
        path.write_text(hint)
    kept.check(open_engine(root))
    assert clean(kept.lake).garbage == ()
    kept.put({3: "on"})
    kept.flush()
    kept.table.process.open(kept.path, kept.region).close()
    assert manifests.read_manifest(kept.path, kept.region).writer_epoch == epoch + 1
    kept.check(open_engine(root))


@pytest.mark.slow
def test_a_commit_of_an_old_manifest_is_refused_however_late(kept: CleanedTable):
    storage = kept.lake.storage
    stopped = read_latest_manifest(storage, kept.region)
    assert stopped is not None
    for value in "ab":
        kept.write_generation(value)
    kept.merge(6)
    kept.clean()
    assert not manifests.build_manifest_path(kept.path, kept.region, stopped.version + 1).stat().st_size
    assert not commit_manifest(storage, replace(stopped, version=stopped.version + 1))
    assert not commit_manifest(storage, replace(stopped, version=1))


def test_a_region_whose_manifests_were_removed_by_hand_is_left_alone(kept: CleanedTable):
    kept.flush()
    newest = manifests.find_newest_version(kept.path, kept.region)
    manifests.build_manifest_path(kept.path, kept.region, newest - 1).unlink()
    hint = manifests.build_manifest_path(kept.path, kept.region, 1).with_name("version_hint.json")
    hint.write_text('{"version":2}')
    with pytest.raises(PreconditionError, match=rf"{kept.region}.*version {newest}.*version_hint.json"):
        kept.clean()
