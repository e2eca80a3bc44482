"""Candidates of several sources as one batch."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows of the batches; no batch gives no rows."""
    parts = list(batches)
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
