"""Which of its two readings `bucket` has in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memwal.index_details import RegionSpec
from memwal.storage import Storage
from memwal.transforms import BucketHash


def bucket_reading(
    storage: Storage,
    dataset: Any,  # noqa: ANN401 (lance types)
    spec: RegionSpec | None,
    field_ids: Mapping[str, int],
) -> BucketHash:
    """How the table's regions came by their bucket numbers."""
    del storage, dataset, spec, field_ids
    return BucketHash.LANCE
