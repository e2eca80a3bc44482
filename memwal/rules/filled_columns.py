"""New columns with one value for all rows of a base table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
from lance.fragment import DataFile, LanceFragment
from lance.schema import LanceSchema

from lance_gateway.memwal.rules.initial_values import InitialValue

_BATCH_ROWS = 65_536


def write_filled_columns(
    dataset: Any,  # noqa: ANN401 - lance types
    added: Sequence[pa.Field],
    values: Mapping[str, InitialValue],
    schema: LanceSchema,
    options: Mapping[str, str],
) -> list[Any]:
    """Write a data file for each fragment, and return the metadata of the fragments with it.

    Lance's own `add_columns` refuses tables with a MemWAL, since it can't know what rows in logs have there.
    Files that are never committed are removed with those of old versions.

    Args:
        dataset: the base table, without the columns.
        added: columns that are added.
        values: those of some of them.
        schema: of the dataset with the columns; has their field ids.
        options: of the storage.
    """
    filled = pa.schema([field.remove_metadata() for field in added if field.name in values])
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    if not filled.names:
        return fragments
    ids = _map_ids(LanceSchema.from_pyarrow(filled), schema)
    extended = []
    for fragment in fragments:
        written = LanceFragment.create(
            dataset.uri,
            pa.RecordBatchReader.from_batches(filled, _repeat(filled, values, fragment.physical_rows)),
            mode="create",
            data_storage_version=dataset.data_storage_version,
            storage_options=dict(options) or None,
        )
        files = [_number_columns(file, ids) for file in written.files]
        extended.append(replace(fragment, files=[*fragment.files, *files]))
    return extended


def _repeat(schema: pa.Schema, values: Mapping[str, InitialValue], rows: int) -> Iterator[pa.RecordBatch]:
    for size in chain([_BATCH_ROWS] * (rows // _BATCH_ROWS), [rows % _BATCH_ROWS]):
        columns = [values[field.name].repeat(size, field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _map_ids(written: LanceSchema, schema: LanceSchema) -> dict[int, int]:
    """Map field ids of files to those that the columns of these names have in a dataset."""
    by_name = {field.name(): field for field in schema.fields()}
    return {
        given: wanted
        for field in written.fields()
        for given, wanted in zip(_walk(field), _walk(by_name[field.name()]), strict=True)
    }


def _number_columns(file: DataFile, ids: Mapping[int, int]) -> DataFile:
    return DataFile(
        file.path,
        [ids[one] for one in file.fields],
        file.column_indices,
        file.file_major_version,
        file.file_minor_version,
        file.file_size_bytes,
        file.base_id,
    )


def _walk(field: Any) -> Iterable[int]:  # noqa: ANN401 - lance types
    yield field.id()
    for child in field.children():
        yield from _walk(child)
