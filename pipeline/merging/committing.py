"""Commits a batch to the base table, and its progress in the same commit.

There are two passes over the newest version: deletes, then upserts that record the progress. Until the second
is committed, the generations stay pending, and readers take their rows from them.
"""

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from lance.mem_wal import CompactedSsTable

from lance_gateway.memwal.columns.lance_rows import export_rows
from lance_gateway.memwal.columns.stored_fields import read_dataset_fields
from lance_gateway.memwal.creating import list_key_columns
from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError, shorten_error
from lance_gateway.memwal.lance_errors import is_commit_conflict, is_out_of_memory, is_replaced
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging.generations import MergedMeanwhileError, Reader, read_progress
from lance_gateway.pipeline.merging.winners import Part, Winners

_ATTEMPTS = 12
_LONGEST_PAUSE = 5.0
_FEW_ROWS = 20_000
_LARGE_BASE = 100
"""Rows of a base table per row of a batch from which lookups cost less than reading all keys."""


@dataclass(frozen=True, slots=True)
class MergedBatch:
    """The result of a commit.

    Attributes:
        generations: region id -> newest merged generation.
        count: number of merged generations.
        upserted: number of rows inserted or updated.
        deleted: number of rows deleted.
    """

    generations: Mapping[str, int]
    count: int
    upserted: int
    deleted: int


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """How a batch is written.

    Attributes:
        in_memory: whether the rows are read into memory first, so that Lance builds its join on the smaller
            side. With a stream it keeps the keys of the base table in memory instead.
        use_key_index: whether an index on the key may be used.
    """

    in_memory: bool
    use_key_index: bool


def commit(table: LakeTable, winners: Sequence[Winners], options: CommitOptions) -> MergedBatch:
    """Merge a batch.

    Raises:
        MergedMeanwhileError: another merger was faster; the table must be read again.
        UnavailableError: storage failed, or other commits came first in every attempt; can be repeated.
    """
    work = _Work(table, winners, options)
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.05 * 2**attempt)))  # noqa: S311 - no secret
        if work.attempt():
            return work.build_result()
    raise UnavailableError(
        f"table {table.name!r}: others changed it during each of {_ATTEMPTS} attempts to merge: merge again "
        "when fewer jobs run"
    )


class _Work:
    """A batch, and which of its passes are done."""

    def __init__(self, table: LakeTable, winners: Sequence[Winners], options: CommitOptions) -> None:
        self._table = table
        self._winners = winners
        self._in_memory = options.in_memory
        self._use_key_index = options.use_key_index
        self._rows = sum(part.rows for part in winners)
        self._keys = sum(part.deleted.num_rows for part in winners)
        self._deleted: int | None = 0 if self._rows and not self._keys else None
        self._upserted = 0

    def build_result(self) -> MergedBatch:
        prefixes = [part.prefix for part in self._winners]
        through = {prefix.region_id: prefix.through for prefix in prefixes}
        count = sum(len(prefix.generations) for prefix in prefixes)
        return MergedBatch(through, count, self._upserted, self._deleted or 0)

    def attempt(self) -> bool:
        """Run the passes that are left; returns whether all are done."""
        failed: list[LanceGatewayError] = []
        try:
            # Deletes before upserts, which record the progress: this order must not change (ADR 24).
            if self._deleted is None:
                self._deleted = self._delete(self._pin_base())
            if self._rows:
                self._upserted = self._upsert(self._pin_base(), failed)
        except (OSError, ValueError, pa.ArrowException) as error:
            if failed:
                raise failed[0] from error
            self._check_retryable(error)
            return False
        return True

    def _pin_base(self) -> Any:  # noqa: ANN401 - lance types
        """Return the newest version, which must contain everything before this batch, and nothing of it."""
        base = self._table.dataset()
        merged = read_progress(self._table, base)
        for part in self._winners:
            prefix, newest = part.prefix, merged.get(part.prefix.region_id, 0)
            if newest != prefix.after:
                raise MergedMeanwhileError(
                    f"table {self._table.name!r}: generation {newest} of region {prefix.region_id} is the "
                    f"newest that is merged, and no longer {prefix.after}"
                )
        return base

    def _delete(self, base: Any) -> int:  # noqa: ANN401 - lance types
        key = list_key_columns(base.schema)
        ids = {field.name: str(field.field_id) for field in read_dataset_fields(base)}
        schema = pa.schema([base.schema.field(name) for name in key])
        parts = [part.deleted.select([ids[name] for name in key]) for part in self._winners]
        keys = pa.concat_tables(parts).rename_columns(list(key)).cast(schema)
        job = base.merge_insert(list(key)).when_matched_delete()
        # No retries by Lance: on a newer version it could delete rows that another merger has merged.
        job = job.conflict_retries(0).use_index(self._is_lookup_cheap(base, self._keys))
        if not self._rows:
            job.mark_sstables_as_compacted(self._list_progress())
        return int(job.execute(keys)["num_deleted_rows"])

    def _upsert(self, base: Any, failed: list[LanceGatewayError]) -> int:  # noqa: ANN401 - lance types
        reader = Reader.of(self._table, base)
        job = base.merge_insert(list(list_key_columns(base.schema)))
        job = job.when_matched_update_all().when_not_matched_insert_all()
        # No retries by Lance: each attempt reads the generations in the columns of the newest version.
        job = job.conflict_retries(0).use_index(self._is_lookup_cheap(base, self._rows))
        job.mark_sstables_as_compacted(self._list_progress())
        parts = (part for winners in self._winners for part in winners.parts())
        if self._in_memory:
            read = self._table.storage.each(lambda part: tuple(reader.read(*part)), parts)
            rows = pa.Table.from_batches(chain.from_iterable(read), reader.schema)
            done = job.execute(export_rows(rows, base.schema).read_all())
        else:
            batches = self._stream_rows(reader, parts, failed)
            streamed = pa.RecordBatchReader.from_batches(reader.schema, batches)
            done = job.execute(export_rows(streamed, base.schema))
        return int(done["num_inserted_rows"] + done["num_updated_rows"])

    def _stream_rows(
        self, reader: Reader, parts: Iterable[Part], failed: list[LanceGatewayError]
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows to upsert; keeps an error in `failed`, since Lance keeps its text only."""
        try:
            for part in parts:
                yield from reader.read(*part)
        except LanceGatewayError as error:
            failed.append(error)
            raise

    def _list_progress(self) -> list[CompactedSsTable]:
        return [CompactedSsTable(part.prefix.region_id, part.prefix.through) for part in self._winners]

    def _is_lookup_cheap(self, base: Any, rows: int) -> bool:  # noqa: ANN401 - lance types
        """Whether to look up rows in an index on the key, if there is one."""
        return self._use_key_index and rows <= _FEW_ROWS and rows * _LARGE_BASE <= base.count_rows()

    def _check_retryable(self, error: Exception) -> None:
        """Return if another attempt may succeed.

        Raises:
            MergedMeanwhileError: another merger recorded the progress.
            UnavailableError: the error is another one.
        """
        self._pin_base()
        if is_out_of_memory(error) and self._use_key_index:
            self._use_key_index = False  # Lookups keep their rows in a pool of fixed size.
            return
        if is_commit_conflict(error):
            return
        if is_replaced(error):
            raise UnavailableError(
                f"table {self._table.name!r}: a merge was not committed, since the table was restored or "
                "overwritten meanwhile. Nothing is lost; merge again"
            ) from error
        raise UnavailableError(
            f"table {self._table.name!r}: a merge was not committed: {shorten_error(error)}. "
            "Nothing is lost; merge again once storage answers"
        ) from error
