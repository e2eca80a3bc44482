"""Blob columns: Lance stores their values apart from others, and scans return where they lie unless asked.

Beyond this module, the values are plain bytes: a table's schema has `large_binary` for them, reads ask Lance
for bytes, and writes convert to what Lance takes. `lance-encoding:blob` in the metadata marks such a field.

Before file version 2.2, that is how they are stored. Since then, they are of the extension type
`lance.blob.v2`, a struct of bytes or of a place elsewhere. Both may be fields of structs, the second also
elements of lists.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.blob import BlobType

from lance_gateway.memwal.columns.nested_fields import has_field, replace_fields

BLOB_ENCODING: Final = b"lance-encoding:blob"
"""Marks a field of blobs; thresholds of its sizes are in the metadata as well, under names that begin so."""
_EXTENSION: Final = "lance.blob"
_EXTENSION_NAME: Final = b"ARROW:extension:name"
_MARKS: Final = (BLOB_ENCODING, _EXTENSION.encode())
_BYTES: Final = pa.large_binary()
BATCH_BYTES: Final = 8 << 20
"""A batch has at most so many bytes of blobs, unless a single one is larger. Lance reads some ahead."""
FEW_ROWS: Final = 64
"""Rows of a batch where the sizes of blobs are not known."""
_READS_BYTES: Final = {"blob_handling": "all_binary"}


def is_blob(field: pa.Field) -> bool:
    """Return whether a field stores blobs."""
    metadata = field.metadata or {}
    return BLOB_ENCODING in metadata or is_blob_struct(field)


def is_blob_struct(field: pa.Field) -> bool:
    """Return whether a field stores blobs as structs, as of file version 2.2."""
    named = (field.metadata or {}).get(_EXTENSION_NAME, b"").decode()
    return bool(getattr(field.type, "extension_name", named).startswith(_EXTENSION))


def list_blobs(schema: pa.Schema) -> frozenset[str]:
    """Return the top-level columns that store blobs, also within structs or lists."""
    # Most schemas have none, and some have thousands of columns.
    if not any(map(schema.serialize().to_pybytes().__contains__, _MARKS)):
        return frozenset()
    return frozenset(field.name for field in schema if has_field(field, is_blob))


def build_plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a stored schema in which blobs are bytes; the same object for one without blobs."""
    if not list_blobs(schema):
        return schema
    return pa.schema(
        [replace_fields(field, is_blob_struct, _build_bytes_field) for field in schema], schema.metadata
    )


def _build_bytes_field(field: pa.Field) -> pa.Field:
    metadata = {key: one for key, one in (field.metadata or {}).items() if key != _EXTENSION_NAME}
    return field.with_type(_BYTES).with_metadata(metadata | {BLOB_ENCODING: b"true"})


def build_blob_field(field: pa.Field) -> pa.Field:
    """Return a field of bytes that is marked as one of blobs as new tables store it."""
    metadata = {key: one for key, one in (field.metadata or {}).items() if key != BLOB_ENCODING}
    return field.with_type(BlobType()).with_metadata(metadata or None)


def open_for_reading(dataset: Any, blobs: Collection[str]) -> Any:  # noqa: ANN401 - lance types
    """Return a dataset whose scans return the bytes of blobs; the same object if it has no blobs.

    Reads of single rows ignore this: see `execnodes.storage.blob_rows`. The schema of the returned dataset is
    that of its scans, so commit changes to the dataset that was given.

    Args:
        dataset: a `lance.LanceDataset`.
        blobs: columns that store blobs, see `list_blobs`.
    """
    if not blobs:
        return dataset
    opened = copy(dataset)
    opened._default_scan_options = _READS_BYTES  # noqa: SLF001 - opening it again would lose its session
    return opened


def count_fitting_rows(dataset: Any, fragments: Sequence[Any] | None, blobs: Collection[str]) -> int | None:  # noqa: ANN401
    """Return how many rows fit into a batch of a scan, whichever rows they are; None if all do.

    Lance counts rows and not bytes when it fills a batch.

    Args:
        dataset: a `lance.LanceDataset`.
        fragments: which are scanned; None for all.
        blobs: columns that are read and store blobs.
    """
    if not blobs:
        return None
    scanner = dataset.scanner(columns=sorted(blobs), fragments=fragments, blob_handling="blobs_descriptions")
    sizes = [_sum_sizes(batch) for batch in scanner.to_batches()]
    if any(one is None for one in sizes):
        return FEW_ROWS
    every = np.sort(np.concatenate([np.empty(0, np.uint64), *(one for one in sizes if one is not None)]))
    fitting = int(np.searchsorted(np.cumsum(every[::-1]), BATCH_BYTES, side="right"))
    return None if fitting == len(every) else max(fitting, 1)


def _sum_sizes(described: pa.RecordBatch) -> np.ndarray | None:
    """Return the bytes of the blobs of each row; None where these are not known."""
    total = np.zeros(described.num_rows, dtype=np.uint64)
    for column in described.columns:
        kind = column.type
        if not pa.types.is_struct(kind) or kind.get_field_index("size") < 0:
            return None  # Blobs within a struct or a list.
        if (
            kind.get_field_index("blob_uri") >= 0
            and pc.any(pc.not_equal(column.field("blob_uri"), "")).as_py()
        ):
            return None  # A file elsewhere may be of any size.
        total += pc.fill_null(pc.struct_field(column, "size"), 0).to_numpy(zero_copy_only=False)
    return total
