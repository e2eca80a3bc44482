"""Drafts, owners' records and markers that nobody asks for any more."""

import json

from lance_gateway.memwal.writing.region.ownership import OwnerRecord, write_owner_record
from tests.support.lake import manifests
from tests.support.lake.cleaning import CleanedTable


def test_drafts_go_when_they_are_old(kept: CleanedTable):
    region = kept.path / "_mem_wal" / kept.region
    drafts = [
        region / "wal" / f"{'0' * 64}.arrow.tmp.5ba3e2d4-1111-2222-3333-444455556666",
        region / "manifest" / f"{'0' * 64}.binpb.tmp.5ba3e2d4-1111-2222-3333-444455556666",
        region / "manifest" / "version_hint.json#1",
    ]
    for one in drafts:
        one.write_bytes(b"half")
    kept.clean(hours=0)
    assert all(one.exists() for one in drafts)
    kept.clean()
    assert not any(one.exists() for one in drafts)


def test_records_of_former_owners_go(kept: CleanedTable):
    epoch = manifests.read_manifest(kept.path, kept.region).writer_epoch
    storage = kept.lake.storage
    for one in (epoch - 1, epoch):
        write_owner_record(storage, kept.region, OwnerRecord(one, "grpc://a", "w", 1.0))
    kept.clean()
    (left,) = (kept.path / "_gateway" / "owners" / kept.region).iterdir()
    assert json.loads(left.read_bytes())["epoch"] == epoch


def test_the_newest_marker_of_a_stream_stays_and_others_for_a_day(kept: CleanedTable):
    storage = kept.lake.storage
    for one in ("stream/0", "stream/9", "stream/10", "once-5ba3e2d4/0"):
        storage.put(f"_gateway/ingest/{one}.done", b"")

    def markers() -> set[str]:
        return {one.name for one in storage.files("_gateway/ingest")}

    kept.clean(hours=23)
    assert len(markers()) == 4
    kept.clean(hours=25)
    assert markers() == {"stream/10.done"}
