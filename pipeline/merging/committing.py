"""One batch into the base table, with its progress in the same commit.

Two passes over the newest version: deletes, then upserts that carry the progress. Until the second is
committed the generations stay pending, and readers take their rows from them.
"""

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from lance.mem_wal import CompactedSsTable

from memwal.creating import list_key_columns
from memwal.errors import LanceGatewayError, UnavailableError, shorten_error
from memwal.stored_fields import read_dataset_fields
from pipeline.jobs.lake import LakeTable
from pipeline.merging.generations import MergedMeanwhileError, Reader, recorded
from pipeline.merging.winners import Part, Winners

_ATTEMPTS = 12
_LONGEST_PAUSE = 5.0
_FEW_ROWS = 20_000
_LARGE_BASE = 100
"""So many times the rows of a batch; reading all keys of a smaller one costs less than looking them up."""
_CONFLICTS = ("concurrent writers", "conflict", "preempted", "concurrent transaction", "incompatible")


@dataclass(frozen=True, slots=True)
class MergedBatch:
    """What a commit did.

    Attributes:
        generations: region id -> newest generation that is merged now.
        count: generations that were merged.
        upserted: rows inserted or updated.
        deleted: rows deleted.
    """

    generations: Mapping[str, int]
    count: int
    upserted: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Manner:
    """How a batch is written.

    Attributes:
        in_memory: whether its rows are read into memory first: Lance then joins the smaller side with the
            larger one. A stream keeps the keys of the base table in memory instead.
        use_key_index: whether an index on the key may be used.
    """

    in_memory: bool
    use_key_index: bool


def commit(table: LakeTable, found: Sequence[Winners], manner: Manner) -> MergedBatch:
    """Merge a batch.

    Raises:
        MergedMeanwhileError: another merger was faster; nothing is left to do, or less.
        UnavailableError: storage failed, or others change the table all the time; the merge can be repeated.
    """
    work = _Work(table, found, manner)
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.05 * 2**attempt)))  # noqa: S311 - no secret
        if work.attempt():
            return work.merged()
    raise UnavailableError(
        f"table {table.name!r}: others changed it during each of {_ATTEMPTS} attempts to merge: merge again "
        "when fewer jobs run"
    )


class _Work:
    """A batch, and which of its passes are done."""

    def __init__(self, table: LakeTable, found: Sequence[Winners], manner: Manner) -> None:
        self._table = table
        self._found = found
        self._in_memory = manner.in_memory
        self._use_key_index = manner.use_key_index
        self._rows = sum(one.rows for one in found)
        self._keys = sum(one.deleted.num_rows for one in found)
        self._deleted: int | None = 0 if self._rows and not self._keys else None
        self._upserted = 0

    def merged(self) -> MergedBatch:
        prefixes = [one.prefix for one in self._found]
        through = {one.region_id: one.through for one in prefixes}
        count = sum(len(one.generations) for one in prefixes)
        return MergedBatch(through, count, self._upserted, self._deleted or 0)

    def attempt(self) -> bool:
        """Do what is left; whether that is all."""
        failed: list[LanceGatewayError] = []
        try:
            # Deletes before upserts, which record the progress: this order must not change (ADR 24).
            if self._deleted is None:
                self._deleted = self._delete(self._pinned())
            if self._rows:
                self._upserted = self._upsert(self._pinned(), failed)
        except (OSError, ValueError, pa.ArrowException) as error:
            if failed:
                raise failed[0] from error
            self._explain(error)
            return False
        return True

    def _pinned(self) -> Any:  # noqa: ANN401 (lance types)
        """The newest version, which has merged what comes before this batch, and nothing of it."""
        base = self._table.dataset()
        merged = recorded(self._table, base)
        for one in self._found:
            prefix, found = one.prefix, merged.get(one.prefix.region_id, 0)
            if found != prefix.after:
                raise MergedMeanwhileError(
                    f"table {self._table.name!r}: generation {found} of region {prefix.region_id} is the "
                    f"newest that is merged, and no longer {prefix.after}"
                )
        return base

    def _delete(self, base: Any) -> int:  # noqa: ANN401 (lance types)
        key = list_key_columns(base.schema)
        ids = {field.name: str(field.field_id) for field in read_dataset_fields(base)}
        schema = pa.schema([base.schema.field(name) for name in key])
        parts = [one.deleted.select([ids[name] for name in key]) for one in self._found]
        keys = pa.concat_tables(parts).rename_columns(list(key)).cast(schema)
        job = base.merge_insert(list(key)).when_matched_delete()
        # Were it planned again on a newer version, it would delete what another merger merged since.
        job = job.conflict_retries(0).use_index(self._may_look_up(base, self._keys))
        if not self._rows:
            job.mark_sstables_as_compacted(self._marks())
        return int(job.execute(keys)["num_deleted_rows"])

    def _upsert(self, base: Any, failed: list[LanceGatewayError]) -> int:  # noqa: ANN401 (lance types)
        reader = Reader.of(self._table, base)
        job = base.merge_insert(list(list_key_columns(base.schema)))
        job = job.when_matched_update_all().when_not_matched_insert_all()
        # Our own attempts read the generations again under the columns of the newest version.
        job = job.conflict_retries(0).use_index(self._may_look_up(base, self._rows))
        job.mark_sstables_as_compacted(self._marks())
        parts = (part for one in self._found for part in one.parts())
        if self._in_memory:
            read = self._table.storage.each(lambda part: tuple(reader.read(*part)), parts)
            done = job.execute(pa.Table.from_batches(chain.from_iterable(read), reader.schema))
        else:
            batches = self._streamed(reader, parts, failed)
            done = job.execute(pa.RecordBatchReader.from_batches(reader.schema, batches))
        return int(done["num_inserted_rows"] + done["num_updated_rows"])

    def _streamed(
        self, reader: Reader, parts: Iterable[Part], failed: list[LanceGatewayError]
    ) -> Iterator[pa.RecordBatch]:
        """Rows to upsert; Lance shows the text of an error only, so the error itself is kept."""
        try:
            for part in parts:
                yield from reader.read(*part)
        except LanceGatewayError as error:
            failed.append(error)
            raise

    def _marks(self) -> list[CompactedSsTable]:
        return [CompactedSsTable(one.prefix.region_id, one.prefix.through) for one in self._found]

    def _may_look_up(self, base: Any, rows: int) -> bool:  # noqa: ANN401 (lance types)
        """Whether an index on the key, if there is one, is to be used."""
        return self._use_key_index and rows <= _FEW_ROWS and rows * _LARGE_BASE <= base.count_rows()

    def _explain(self, error: Exception) -> None:
        """Return where another attempt may succeed.

        Raises:
            MergedMeanwhileError: the progress was recorded by another merger.
        """
        text = str(error)
        if "Stale SSTable" in text:
            raise MergedMeanwhileError(
                f"table {self._table.name!r}: another merger recorded the same generations"
            ) from error
        if "Resources exhausted" in text and self._use_key_index:
            self._use_key_index = False  # Lookups keep their rows in a pool of fixed size.
            return
        if any(word in text.lower() for word in _CONFLICTS):
            return
        raise UnavailableError(
            f"table {self._table.name!r}: a merge was not committed: {shorten_error(error)}. "
            "Nothing is lost; merge again once storage answers"
        ) from error
