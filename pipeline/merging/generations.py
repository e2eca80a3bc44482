"""Opens flushed generations, and reads them in the base table's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_gateway.memwal.base.index_details import list_merged_generations, read_index_details
from lance_gateway.memwal.columns.blobs import (
    build_plain_schema,
    count_fitting_rows,
    list_blobs,
    open_for_reading,
)
from lance_gateway.memwal.columns.stored_fields import StoredField, read_dataset_fields
from lance_gateway.memwal.errors import (
    CorruptDataError,
    InvalidInputError,
    LanceGatewayError,
    UnavailableError,
    UnsupportedError,
    shorten_error,
)
from lance_gateway.memwal.lance_errors import is_absent, is_damaged, is_read_alone
from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.memwal.rules import build_initial_column
from lance_gateway.memwal.storage.files import generation_directory
from lance_gateway.pipeline.jobs.lake import LakeTable

_BATCH_ROWS = 65_536


class MergedMeanwhileError(UnavailableError):
    """Another merger was faster, or an older version was restored: the table must be read again."""


def open_generation(table: LakeTable, region_id: str, generation: FlushedGeneration) -> Any:  # noqa: ANN401 - lance types
    """Open a generation as a `lance.LanceDataset`.

    Raises:
        MergedMeanwhileError: the generation was merged and removed.
        CorruptDataError: the generation is missing or damaged, and was not merged.
    """
    uri = table.storage.locate(generation_directory(region_id, generation.path))
    try:
        return lance.dataset(uri, storage_options=dict(table.options) or None)
    except (OSError, ValueError) as error:
        raise describe_read_error(table, region_id, generation, error) from error


def describe_read_error(
    table: LakeTable, region_id: str, generation: FlushedGeneration, error: Exception
) -> LanceGatewayError:
    """Return the error for a generation that can't be read."""
    reason = shorten_error(error)
    where = f"table {table.name!r}: generation {generation.generation} of region {region_id}"
    place = table.storage.locate(generation_directory(region_id, generation.path))
    if is_absent(error):
        if read_progress(table, table.dataset()).get(region_id, 0) >= generation.generation:
            return MergedMeanwhileError(f"{where} was merged and cleaned up meanwhile")
        return CorruptDataError(
            f"{where} is missing, though it was never merged: restore {place} from a backup ({reason}). "
            "Nothing of it was marked as merged"
        )
    if is_read_alone(error):
        return UnsupportedError(
            f"{where} can't be merged: Lance can't read a list of fixed size whose elements are structs "
            f"together with other columns ({reason}). Drop that column, then merge again"
        )
    if is_damaged(error):
        return CorruptDataError(f"{where} is damaged: restore {place} from a backup ({reason})")
    return UnavailableError(f"{where} can't be read now: {reason}. Merge again later")


def read_progress(table: LakeTable, base: Any) -> Mapping[str, int]:  # noqa: ANN401 - lance types
    """Return region id -> newest generation that a version of the base table contains."""
    return list_merged_generations(read_index_details(table.storage, base.version))


@dataclass(frozen=True)
class Reader:
    """Reads generations in the columns of one version of the base table.

    Columns are matched by field id, since they may have been renamed, added or dropped after a generation was
    flushed. Columns that a generation does not have are NULL.

    Attributes:
        table: table of the generations.
        schema: schema of the base table; blobs are bytes.
        fields: top-level fields with their ids.
        names: field id -> name, on all levels.
    """

    table: LakeTable
    schema: pa.Schema
    fields: tuple[StoredField, ...]
    names: Mapping[int, str]

    @staticmethod
    def of(table: LakeTable, base: Any) -> Reader:  # noqa: ANN401 - lance types
        """Create a reader for an open base table."""
        fields = read_dataset_fields(base)
        names = {nested.field_id: nested.name for field in fields for nested in field.walk()}
        return Reader(table, build_plain_schema(base.schema), fields, names)

    def read(
        self, region_id: str, generation: FlushedGeneration, kept: np.ndarray | None
    ) -> Iterator[pa.RecordBatch]:
        """Read rows of a generation in the base table's columns.

        Args:
            region_id: id of the region.
            generation: the generation.
            kept: mask of the rows to read; None for all.
        """
        dataset = open_generation(self.table, region_id, generation)
        stored = {field.field_id: field for field in read_dataset_fields(dataset)}
        columns = [stored[field.field_id].name for field in self.fields if field.field_id in stored]
        start = 0
        for batch in scan(self.table, region_id, generation, dataset, columns):
            rows = batch
            if kept is not None:
                rows = batch.filter(pa.array(kept[start : start + batch.num_rows]))
            start += batch.num_rows
            if rows.num_rows:
                yield self.conform(rows, stored)

    def conform(self, rows: pa.RecordBatch, stored: Mapping[int, StoredField]) -> pa.RecordBatch:
        """Convert stored rows to the base table's columns.

        Args:
            rows: rows of a generation or a log entry.
            stored: field id -> stored column.

        Raises:
            InvalidInputError: a column was changed to a type that does not hold its values.
        """
        arrays = [self._column(rows, field, stored.get(field.field_id)) for field in self.fields]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, rows: pa.RecordBatch, field: StoredField, stored: StoredField | None) -> pa.Array:
        if stored is None:
            return build_initial_column(self.schema.field(field.name), rows.num_rows)
        array = rows.column(stored.name)
        if array.type.equals(field.type):
            return array
        # `cast` matches children by name, so they are renamed first.
        renamed = array.view(stored.rename_children(self.names)) if pa.types.is_nested(array.type) else array
        try:
            return renamed.cast(field.type)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"table {self.table.name!r}: column {field.name!r} was flushed as {stored.type} and is now "
                f"{field.type}: {error}. Change its type so that it holds these values, then merge again"
            ) from error


def scan(
    table: LakeTable,
    region_id: str,
    generation: FlushedGeneration,
    dataset: Any,  # noqa: ANN401 - lance types
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Scan columns of a generation in the order in which its rows were written."""
    blobs = list_blobs(dataset.schema)
    try:
        rows = count_fitting_rows(dataset, None, blobs.intersection(columns)) or _BATCH_ROWS
        yield from (
            open_for_reading(dataset, blobs)
            .scanner(columns=list(columns), batch_size=rows, scan_in_order=True)
            .to_batches()
        )
    except (OSError, ValueError) as error:
        raise describe_read_error(table, region_id, generation, error) from error
