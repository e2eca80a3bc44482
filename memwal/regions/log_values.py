"""Values that log entries have in another form than datasets: JSON is binary, and blobs are structs.

Small blobs are in the entry, others in files of the generation that is not flushed yet: an entry says in its
schema's metadata which directory that will be, and under which name its data file. The blobs of one entry
share a file of their own, beside that data file; large ones have one each.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.columns.blobs import build_plain_schema, is_blob_struct
from lance_gateway.memwal.columns.json_values import build_json_field, decode_json, is_stored_json
from lance_gateway.memwal.columns.nested_fields import map_values, replace_fields
from lance_gateway.memwal.errors import CorruptDataError, UnsupportedError
from lance_gateway.memwal.storage.files import Storage, generation_directory

_DIRECTORY: Final = b"mem_wal_target_generation_dir"
_DATA_FILE: Final = b"mem_wal_target_data_file"
_TYPE: Final = b"lance.blob.v2"
_HIDDEN_TYPE: Final = b"lance.blob.in"
"""As long as the other: pylance registers a type of that name, which refuses the structs of log entries."""
BLOB_SUFFIX: Final = ".blob"
_IN_ENTRY, _PACKED, _DEDICATED = range(3)
_ID_BITS: Final = 32


def hide_blob_type(stream: bytes) -> bytes:
    """Return an Arrow IPC stream in which columns of blobs are plain structs."""
    end = 8 + struct.unpack_from("<i", stream, 4)[0]  # The first message is the schema.
    schema = stream[:end]
    return schema.replace(_TYPE, _HIDDEN_TYPE) + stream[end:] if _TYPE in schema else stream


def read_values(table: Storage, region_id: str, rows: pa.Table) -> pa.Table:
    """Return the rows of a log entry with blobs as bytes, and JSON as text.

    Args:
        table: its directory.
        region_id: of the entry.
        rows: as `hide_blob_type` lets them be read.

    Raises:
        CorruptDataError: a file with blobs is missing or cut short.
        UnsupportedError: a blob is in a file elsewhere.
        UnavailableError: storage failed.
    """
    fields = [
        replace_fields(field, is_stored_json, build_json_field) for field in build_plain_schema(rows.schema)
    ]
    plain = pa.schema(fields, rows.schema.metadata)
    if plain.equals(rows.schema):
        return rows
    files = _Files(table, region_id, rows.schema.metadata or {}, {})

    def convert(values: pa.Array, kind: pa.DataType) -> pa.Array:
        return decode_json(values) if isinstance(kind, pa.JsonType) else _read_blobs(values, files)

    batches = [
        pa.RecordBatch.from_arrays(
            [
                map_values(column, field, target, _is_stored_otherwise, convert)
                for column, field, target in zip(batch.columns, rows.schema, plain, strict=True)
            ],
            schema=plain,
        )
        for batch in rows.to_batches()
    ]
    return pa.Table.from_batches(batches, plain)


def _is_stored_otherwise(field: pa.Field) -> bool:
    return is_blob_struct(field) or is_stored_json(field)


@dataclass(frozen=True)
class _Files:
    """The files with the blobs of an entry.

    Attributes:
        table: directory of the table.
        region_id: of the entry.
        metadata: of its schema.
        known: contents by id.
    """

    table: Storage
    region_id: str
    metadata: Mapping[bytes, bytes]
    known: dict[int, bytes]

    def read(self, blob_id: int, position: int, size: int) -> bytes:
        """Return a part of a file."""
        directory, data_file = (self.metadata.get(key, b"").decode() for key in (_DIRECTORY, _DATA_FILE))
        stem = data_file.removesuffix(".lance")
        name = f"{blob_id:0{_ID_BITS}b}"[::-1]
        path = f"{generation_directory(self.region_id, directory)}/data/{stem}/{name}{BLOB_SUFFIX}"
        try:
            contents = self.known.get(blob_id) or self.table.read(path)
        except FileNotFoundError as error:
            msg = f"{self.table.locate(path)} is gone, and has blobs of the log: restore it from a backup"
            raise CorruptDataError(msg) from error
        self.known[blob_id] = contents
        found = contents[position : position + size]
        if len(found) != size:
            msg = f"{self.table.locate(path)} ({len(contents)} bytes) is cut short: restore it from a backup"
            raise CorruptDataError(msg)
        return found


def _read_blobs(values: pa.Array, files: _Files) -> pa.Array:
    """Return the bytes of blobs; those that are in the entry if its writer put all of them there."""
    if pa.types.is_large_binary(values.type):
        return values
    kinds = values.type.get_field_index("kind")
    if kinds < 0 or not pc.any(pc.not_equal(values.field("kind"), _IN_ENTRY)).as_py():
        if pc.any(pc.is_valid(values.field("uri"))).as_py():
            raise _elsewhere_error(files)
        return pc.struct_field(values, "data")
    found: list[bytes | None] = []
    for one in values.to_pylist():
        if one is None or one["kind"] == _IN_ENTRY:
            found.append(None if one is None else one["data"])
        elif one["kind"] in {_PACKED, _DEDICATED}:
            found.append(files.read(one["blob_id"], one["position"] or 0, one["blob_size"]))
        else:
            raise _elsewhere_error(files)
    return pa.array(found, pa.large_binary())


def _elsewhere_error(files: _Files) -> UnsupportedError:
    return UnsupportedError(
        f"a log entry of region {files.region_id} names a blob in a file elsewhere, which is not supported: "
        "flush the region with the version of Lance that wrote it"
    )
