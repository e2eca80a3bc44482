"""Rows of a table without MemWAL: written to its base table, and taken out of it, in one commit.

What is new is written to files first, which no version has yet. The commit is made on the newest version
alone: if another commit comes first, the change is checked against that version, and committed on it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Final

import lance
import numpy as np
import pyarrow as pa
from lance.fragment import FragmentMetadata

from lance_gateway.memwal.base.index_details import read_index_details, replace_details
from lance_gateway.memwal.base.repeated_rows import KeyHistory, find_repeated_rows
from lance_gateway.memwal.base.versions import NotCommittedError, commit_next, read_operation
from lance_gateway.memwal.columns.blobs import build_plain_schema
from lance_gateway.memwal.columns.lance_rows import export_rows
from lance_gateway.memwal.creating.columns import list_key_columns, list_not_null_columns
from lance_gateway.memwal.errors import LanceGatewayError, PreconditionError, UnavailableError, shorten_error
from lance_gateway.memwal.rules import RowRules, read_row_rules
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing.changes import FencedError, OutcomeUnknownError
from lance_gateway.memwal.writing.table.conforming import conform_rows

_ATTEMPTS: Final = 64
_FIRST_PAUSE_SECONDS: Final = 0.002
_LONGEST_PAUSE_SECONDS: Final = 0.2
_OFFSET_BITS: Final = 32
_OFFSETS: Final = (1 << _OFFSET_BITS) - 1
_REPLACING: Final = (lance.LanceOperation.Overwrite, lance.LanceOperation.Restore)
_PREDICATE: Final = "rows of a statement"
"""What a version says of rows that were deleted: Lance wants a text, and reads nothing from it."""


@dataclass(frozen=True, eq=False)
class BaseRows:
    """One version of a base table, as those who write to it without MemWAL use it.

    Attributes:
        name: of the table, for messages.
        storage: directory of the table.
        dataset: the `lance.LanceDataset`.
    """

    name: str
    storage: Storage
    dataset: Any

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns of the table; blobs are bytes."""
        return build_plain_schema(self.dataset.schema)

    @cached_property
    def required(self) -> frozenset[str]:
        """Columns in which NULL is refused."""
        return frozenset((*list_not_null_columns(self.schema), *list_key_columns(self.schema)))

    @cached_property
    def rules(self) -> RowRules:
        """What else its rows must meet."""
        return read_row_rules(self.name, self.dataset)

    @cached_property
    def _fields(self) -> tuple[tuple[str, int], ...]:
        return tuple((one.name(), one.id()) for one in self.dataset.lance_schema.fields())

    @cached_property
    def _fragments(self) -> Mapping[int, Any]:
        return {one.fragment_id: one for one in self.dataset.get_fragments()}

    def has_columns_of(self, other: BaseRows) -> bool:
        """Return whether another version has the same columns."""
        return bool(self.schema.equals(other.schema) and self._fields == other._fields)

    def takes_rows_of(self, other: BaseRows) -> bool:
        """Return whether rows that were checked for another version fit this one."""
        return self.dataset.version == other.dataset.version or (
            self.has_columns_of(other) and self.required == other.required and self.rules == other.rules
        )

    def has_rows_of(self, other: BaseRows, fragment_ids: Sequence[int]) -> bool:
        """Return whether fragments are stored as they are in another version, with the same rows deleted."""
        if self.dataset.version == other.dataset.version:
            return True
        return all(
            one in self._fragments
            and one in other._fragments
            and self._fragments[one].metadata.to_json() == other._fragments[one].metadata.to_json()
            for one in fragment_ids
        )

    def check(self, rows: pa.Table) -> pa.Table:
        """Return rows with the columns and types of the table.

        Raises:
            InvalidInputError: they don't fit, or violate a rule.
        """
        conformed = conform_rows(rows, self.schema, self.required, self.name)
        self.rules.check(conformed)
        return conformed

    def write_files(self, rows: Iterator[pa.Table]) -> tuple[FragmentMetadata, ...]:
        """Write rows to files, which no version has yet; write none without rows.

        Args:
            rows: with the columns and types of the table.

        Raises:
            UnavailableError: storage failed.
            Exception: an error of `rows`.
        """
        first = next(rows, None)
        if first is None:
            return ()
        failures: list[BaseException] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for table in chain((first,), rows):
                    yield from table.to_batches()
            except BaseException as error:
                failures.append(error)  # Lance would wrap it.
                raise

        reader = pa.RecordBatchReader.from_batches(self.schema, batches())
        try:
            stored = self.dataset.schema
            written = lance.fragment.write_fragments(export_rows(reader, stored), self.dataset, schema=stored)
        except (OSError, ValueError) as error:
            if failures:
                raise failures[0] from None
            msg = f"rows of table {self.name!r} can't be written: {shorten_error(error)}"
            raise UnavailableError(msg) from error
        return tuple(one for one in written if one.physical_rows)

    def delete_rows(self, removed: Mapping[int, np.ndarray]) -> Deletions:
        """Write the files that mark rows as deleted, which no version has yet.

        Args:
            removed: fragment id -> ascending offsets of rows, none of which is deleted yet.
        """
        updated, emptied = [], []
        for fragment_id, offsets in removed.items():
            fragment = self._fragments[fragment_id]
            is_whole = len(offsets) == fragment.metadata.num_rows
            left = None if is_whole else fragment.delete_rows(offsets.tolist())
            if left is None:
                emptied.append(fragment_id)
            else:
                updated.append(left)
        return Deletions(tuple(updated), tuple(emptied))


@dataclass(frozen=True, slots=True)
class Deletions:
    """Fragments without some of their rows.

    Attributes:
        updated: with the rows that are left.
        emptied: ids of those of which no row is left.
    """

    updated: tuple[FragmentMetadata, ...] = ()
    emptied: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class BaseChange:
    """A change that is committed as a whole.

    Attributes:
        added: new rows, in files that no version has yet.
        removed: fragment id -> ascending offsets of the rows that go.
    """

    added: tuple[FragmentMetadata, ...] = ()
    removed: Mapping[int, np.ndarray] = field(default_factory=dict)


def group_by_fragment(addresses: Sequence[np.ndarray]) -> Mapping[int, np.ndarray]:
    """Return the distinct offsets of row addresses by fragment id, ascending."""
    if not any(map(len, addresses)):
        return {}
    every = np.sort(np.concatenate(addresses))  # NumPy's own way to distinct values takes ten times as long.
    every = every[_begins(every)]
    fragments = every >> _OFFSET_BITS
    firsts = np.flatnonzero(_begins(fragments))
    parts = np.split(every & _OFFSETS, firsts[1:])
    return {int(fragments[first]): part for first, part in zip(firsts, parts, strict=True)}


def _begins(ordered: np.ndarray) -> np.ndarray:
    """Return the mask of the values that differ from the one before, of one or more."""
    return np.concatenate([[True], ordered[1:] != ordered[:-1]])


def commit_base_change(read: BaseRows, find_newest: Callable[[], BaseRows], change: BaseChange) -> None:
    """Commit a change as the next version of a table.

    Args:
        read: the version whose columns and rules the new rows have; rows that go were read in it, or later.
        find_newest: opens the newest version.
        change: is lost where this fails; the files of its new rows are removed then.

    Raises:
        FencedError: rows that go were changed by others since, or all attempts were too late; nothing was
            written, and the statement may be run again.
        PreconditionError: the table has other columns or rules by now; nothing was written.
        OutcomeUnknownError: storage failed while the change was committed.
    """
    try:
        _commit(read, find_newest, change)
    except OutcomeUnknownError:
        raise  # A version may have the files.
    except LanceGatewayError:
        discard_files(read.storage, change.added)
        raise


def remove_repeated_rows(name: str, storage: Storage, find_newest: Callable[[], Any]) -> bool:
    """Delete the rows of a table whose key a row with a higher address has, in one commit.

    Whoever compacts files calls it before: compaction gives rows new addresses, in another order where it
    leaves some fragments out.

    Args:
        name: of the table, for messages.
        storage: directory of the table.
        find_newest: opens the newest version as a `lance.LanceDataset`.

    Returns:
        Whether there were any.

    Raises:
        FencedError: rows were changed by others meanwhile; nothing was deleted.
        LanceGatewayError: the table can't be read or written.
    """
    dataset = find_newest()
    key = list_key_columns(dataset.schema)
    if not key or read_index_details(storage, dataset.version) is None:
        return False
    if KeyHistory(storage, dataset, key).shows_distinct_keys():
        return False
    addresses = find_repeated_rows(dataset, key)
    if not len(addresses):
        return False
    change = BaseChange(removed=group_by_fragment([addresses]))
    read = BaseRows(name, storage, dataset)
    commit_base_change(read, lambda: BaseRows(name, storage, find_newest()), change)
    return True


def _commit(read: BaseRows, find_newest: Callable[[], BaseRows], change: BaseChange) -> None:
    deletions: Deletions | None = None
    for attempt in range(_ATTEMPTS):
        newest = find_newest()
        if not newest.takes_rows_of(read):
            msg = (
                f"table {read.name!r} was altered while the statement ran, and nothing was written: send it "
                "again"
            )
            raise PreconditionError(msg)
        if change.removed and is_replaced_since(read, newest):
            msg = (
                f"table {read.name!r} was restored or overwritten while the statement ran, and nothing was "
                "written: send it again if its new rows are meant"
            )
            raise PreconditionError(msg)
        if not newest.has_rows_of(read, tuple(change.removed)):
            msg = f"rows of table {read.name!r} were changed by others since they were read"
            raise FencedError(msg)
        deletions = deletions or newest.delete_rows(change.removed)
        operation = _build_operation(change, deletions)
        if _commit_next(newest, find_newest, operation):
            return
        _pause(attempt)
    msg = f"{_ATTEMPTS} times another commit to table {read.name!r} came first"
    raise FencedError(msg)


def is_replaced_since(read: BaseRows, newest: BaseRows) -> bool:
    """Return whether the rows of a table were overwritten, or a version was restored, since it was read."""
    versions = range(read.dataset.version + 1, newest.dataset.version + 1)
    return any(isinstance(read_operation(newest.dataset, version), _REPLACING) for version in versions)


def _commit_next(newest: BaseRows, find_newest: Callable[[], BaseRows], *operations: Any) -> bool:  # noqa: ANN401
    """Commit operations as one version; return False if others made the next one."""
    try:
        return commit_next(newest.storage, newest.dataset.version, *operations)
    except NotCommittedError:
        find_newest()  # Tells of a table that was dropped, or recreated.
        raise
    except UnavailableError as error:
        msg = f"table {newest.name!r}: it is not known whether the change was committed: {error}"
        raise OutcomeUnknownError(msg) from error


def commit_moved_rows(
    read: BaseRows,
    find_newest: Callable[[], BaseRows],
    added: Sequence[FragmentMetadata],
    before: Mapping[str, int],
    merged: Mapping[str, int],
) -> bool:
    """Commit rows of generations to the base table, with the record that it has them, as one version.

    Args:
        read: the version whose columns the rows have.
        find_newest: opens the newest version.
        added: the rows, in files that no version has yet; they are removed unless this commits them.
        before: region id -> newest generation that the base table had when the rows were read; 0 for none.
        merged: region id -> newest generation among the rows.

    Returns:
        False if others merged generations of these regions meanwhile, or altered the table: begin again.

    Raises:
        OutcomeUnknownError: storage failed while the rows were committed.
        LanceGatewayError: the table is gone, or the rows can't be committed.
    """
    try:
        is_committed = _commit_moved(read, find_newest, added, before, merged)
    except OutcomeUnknownError:
        raise  # A version may have the files.
    except LanceGatewayError:
        discard_files(read.storage, added)
        raise
    if not is_committed:
        discard_files(read.storage, added)
    return is_committed


def _commit_moved(
    read: BaseRows,
    find_newest: Callable[[], BaseRows],
    added: Sequence[FragmentMetadata],
    before: Mapping[str, int],
    merged: Mapping[str, int],
) -> bool:
    for attempt in range(_ATTEMPTS):
        newest = find_newest()
        details = read_index_details(newest.storage, newest.dataset.version)
        if details is None or not newest.has_columns_of(read):
            return False
        if any(details.newest_merged(region_id) != generation for region_id, generation in before.items()):
            return False
        encoded = details.encode_with_merged({**details.merged_generations, **merged})
        # Others' commits may be in conflict with the record of what is merged, but never with the rows: those
        # who compare it commit on one version alone, as is done here.
        operations = [replace_details(newest.storage, newest.dataset.version, encoded)]
        if added:
            operations.append(lance.LanceOperation.Append(list(added)))
        if _commit_next(newest, find_newest, *operations):
            return True
        _pause(attempt)
    msg = f"{_ATTEMPTS} times another commit to table {read.name!r} came first"
    raise FencedError(msg)


def _build_operation(change: BaseChange, deletions: Deletions) -> Any:  # noqa: ANN401 - lance types
    if not change.removed:
        return lance.LanceOperation.Append(list(change.added))
    updated, emptied = list(deletions.updated), list(deletions.emptied)
    if not change.added:
        return lance.LanceOperation.Delete(updated, emptied, _PREDICATE)
    return lance.LanceOperation.Update(
        removed_fragment_ids=emptied, updated_fragments=updated, new_fragments=list(change.added)
    )


def discard_files(storage: Storage, fragments: Sequence[FragmentMetadata]) -> None:
    """Delete the files of fragments that no version has."""
    for file in (file for fragment in fragments for file in fragment.files):
        with suppress(LanceGatewayError):
            storage.delete(f"data/{file.path}")


def _pause(attempt: int) -> None:
    longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt)
    time.sleep(random.uniform(0.5, 1.0) * longest)  # noqa: S311 - no secret
