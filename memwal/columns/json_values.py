"""Values of columns of `arrow.json`: texts for everybody else, and binary documents in Lance's log.

Lance converts them where it writes and reads datasets, but not where it appends to the log. So Lance is asked
to write the texts to a file, which is read as it is stored, and the other way round. Documents keep no spaces
and no order of names, for example, so texts differ after Lance has stored them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import lance
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

from lance_gateway.memwal.columns.nested_fields import has_field, map_values, replace_fields
from lance_gateway.memwal.errors import InvalidInputError, shorten_error

STORED_JSON: Final = pa.large_binary()
_TEXT_FIELD: Final = pa.field("json", pa.json_())
_EXTENSION: Final = b"ARROW:extension:"
_EXTENSION_NAME: Final = _EXTENSION + b"name"
_STORED_TYPE: Final = b"lance.json"
_STORED_FIELD: Final = pa.field("json", STORED_JSON, metadata={_EXTENSION_NAME: _STORED_TYPE})


def is_stored_json(field: pa.Field) -> bool:
    """Return whether a field of a log entry has binary documents."""
    return (field.metadata or {}).get(_EXTENSION_NAME) == _STORED_TYPE


def build_stored_field(field: pa.Field) -> pa.Field:
    """Return a field of texts as one of binary documents in the log."""
    marks = {_EXTENSION_NAME: _STORED_TYPE, _EXTENSION + b"metadata": b""}
    return field.with_type(STORED_JSON).with_metadata({**(field.metadata or {}), **marks})


def build_json_field(field: pa.Field) -> pa.Field:
    """Return a field of a log entry with texts in place of binary documents."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if not key.startswith(_EXTENSION)}
    return field.with_type(pa.json_()).with_metadata(metadata or None)


def encode_json(texts: pa.Array) -> pa.Array:
    """Return texts of type `arrow.json` as binary documents.

    Raises:
        InvalidInputError: Lance takes a text for no JSON.
    """
    schema = pa.schema([_TEXT_FIELD])
    with tempfile.TemporaryDirectory(prefix="lance-gateway-") as directory:
        path = str(Path(directory) / "values.lance")
        try:
            with LanceFileWriter(path, schema=schema) as writer:
                writer.write_batch(pa.record_batch([texts], schema=schema))
        except (OSError, RuntimeError, ValueError) as error:
            raise InvalidInputError(f"a text is not valid JSON: {shorten_error(error)}") from error
        read: pa.ChunkedArray = LanceFileReader(path).read_all().to_table().column(0)
    return pa.concat_arrays([pa.array([], STORED_JSON), *read.chunks])


def decode_json(documents: pa.Array) -> pa.Array:
    """Return binary documents as texts of type `arrow.json`."""
    return _store_and_read(documents.cast(STORED_JSON), _STORED_FIELD)


def _normalize(texts: pa.Array) -> pa.Array:
    try:
        return _store_and_read(texts, _TEXT_FIELD)
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInputError(f"a text is not valid JSON: {shorten_error(error)}") from error


def _store_and_read(values: pa.Array, field: pa.Field) -> pa.Array:
    """Return what Lance reads as texts when it has stored values."""
    rows = pa.table([values], schema=pa.schema([field]))
    dataset: Any = lance.write_dataset(rows, "memory://documents")  # Each has a store of its own.
    read: pa.ChunkedArray = dataset.to_table().column(0)
    texts = [one.storage.cast(pa.string()) for one in read.chunks]
    return pa.ExtensionArray.from_storage(pa.json_(), pa.concat_arrays([pa.array([], pa.string()), *texts]))


def normalize_json(rows: pa.Table) -> pa.Table:
    """Return rows whose columns of `arrow.json` have the texts that Lance returns when it has stored them.

    Raises:
        InvalidInputError: Lance takes a text for no JSON.
    """
    return map_json(rows, lambda field: field, _normalize)


def map_json(
    rows: pa.Table, replace: Callable[[pa.Field], pa.Field], convert: Callable[[pa.Array], pa.Array]
) -> pa.Table:
    """Return rows with the values of `arrow.json` converted, at every depth; the same object without any.

    Args:
        rows: of any columns.
        replace: returns the field of the converted values.
        convert: converts texts.
    """
    for place, field in enumerate(rows.schema):
        if not has_field(field, _is_json):
            continue
        target = replace_fields(field, _is_json, replace)
        chunks = [
            map_values(chunk, field, target, _is_json, lambda values, _: convert(values))
            for chunk in rows.column(place).chunks
        ]
        rows = rows.set_column(place, target, pa.chunked_array(chunks, target.type))
    return rows


def _is_json(field: pa.Field) -> bool:
    return isinstance(field.type, pa.JsonType)
