"""Who owns a region: a small file beside the table, written after each claim, for other processes to find.

The region's manifest alone decides who may write. A record only tells how to reach that process, since when
it owns the region, and whether it let go.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

from memwal.errors import InvalidInputError, UnavailableError
from memwal.regions.manifest import RegionManifest, manifest_path
from memwal.storage.files import Storage

OWNERS = "_gateway/owners"
_KEPT = 16


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """What an owner says of itself.

    Attributes:
        epoch: of its claim.
        url: by which other processes reach it; empty where they can't.
        writer: names it among all writers.
        claimed_at: Unix time in seconds.
        is_released: whether it flushed the region and let go.
    """

    epoch: int
    url: str
    writer: str
    claimed_at: float
    is_released: bool = False

    def __post_init__(self) -> None:
        if self.epoch < 1:
            msg = f"owner record of {self.writer!r}: epoch {self.epoch}, but epochs of claims start at 1"
            raise InvalidInputError(msg)


def record_path(region_id: str, epoch: int) -> str:
    """The file of the record of one claim, below the table's directory.

    The last claims have their own each: a former owner that is late with its record would else write over
    the newer one.
    """
    return f"{OWNERS}/{region_id}/{epoch % _KEPT}.json"


def write_owner(storage: Storage, region_id: str, record: OwnerRecord) -> None:
    """Record an owner; where storage fails, others take it for one that nobody knows."""
    with suppress(UnavailableError):
        storage.put(record_path(region_id, record.epoch), json.dumps(asdict(record)).encode())


def forget_owner(storage: Storage, region_id: str, epoch: int) -> None:
    """Remove the record of a claim that is over; where storage fails, it stays and harms nobody."""
    with suppress(UnavailableError):
        storage.delete(record_path(region_id, epoch))


def read_owner(storage: Storage, manifest: RegionManifest) -> OwnerRecord | None:
    """The record of the writer that a region's manifest names; None where it left none.

    Raises:
        UnavailableError: storage failed to answer.
    """
    try:
        data = storage.read(record_path(manifest.region_id, manifest.writer_epoch))
        record = OwnerRecord(**json.loads(data))
    except (FileNotFoundError, ValueError, TypeError, InvalidInputError):
        return None  # Anyone may have written there: a record is never more than a hint.
    return record if record.epoch == manifest.writer_epoch else None


def manifest_age(storage: Storage, manifest: RegionManifest) -> float:
    """Seconds since the manifest was written, by the clocks of storage and this machine.

    Raises:
        UnavailableError: storage failed to answer.
    """
    identity = storage.identity(manifest_path(manifest.region_id, manifest.version))
    return 0.0 if identity is None else time.time() - identity.written / 1e9
