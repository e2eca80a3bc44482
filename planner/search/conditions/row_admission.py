"""Which rows of a search's sources its conditions admit: before ranking, so that none of k places is lost.

A condition for which the base table has a scalar index is handed to Lance with the search. For all others the
columns that they read are scanned, and what is admitted becomes a narrower mask of the source:

    WHERE id < 10                  sources as they are, row_filter "`id` < 10" (id has a BTREE index)
    WHERE price < 10               masks narrowed to the rows with such prices, no row_filter
    WHERE title LIKE 'A%'          masks narrowed to the rows with such titles, no row_filter

Which rows of a fragment's files fulfil a condition never changes, so it is kept: a policy, or the condition
of a statement that runs again, costs one scan of each fragment, where Lance would scan for every search. What
fails for some row is decided for visible rows alone, since the others are nobody's business.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from execnodes import LanceSource, MemTableSource, RowFilter, RowMask
from execnodes.node import ROW_ADDRESS
from execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_MASK, FragmentMask, ShownRows
from execnodes.search.source import SearchSource
from execnodes.storage.data_files import Deletions, FragmentFiles, StoredValues
from execnodes.storage.source import convert_columns
from planner.access.table_policy import TablePolicy
from planner.predicates.predicate import TRUE, And, conjunction
from planner.predicates.row_filter import PredicateFilter, columns_of, is_understood
from planner.search.conditions.row_conditions import Condition, Policed, StoredCondition, shows_of
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.caches import ByteCache

__all__ = ["Admission", "below_policy", "indexed_columns"]

_FINDING = frozenset({"BTree", "Bitmap"})
"""Types of indexes that find the rows with a value; others only tell where it is not."""

_OVERHEAD = 256
_FEW_ROWS = 8192
"""Of texts and lists, which may be long, so many rows are evaluated at a time."""
_READ_AHEAD = 4
_FAILS_FOR_A_ROW = "fails for a row"
"""Kept in place of a mask."""
_ADDRESS_FIELD = pa.field(ROW_ADDRESS, pa.uint64())


ReadAs = tuple[tuple[str, pa.DataType, tuple[int, pa.DataType] | None], ...]
"""Name and type of columns of a table, and what they are made of: field id and type of the stored column."""


@dataclass(frozen=True, slots=True)
class _AdmittedRows:
    """Names the mask of a source's rows that fulfil a condition.

    Equal for the same shown rows, in which the condition's columns are made of the same ones.

    Attributes:
        source: see `SearchSource.identity`.
        columns: that the condition reads.
        shown: rows that are visible.
        condition: see `Condition.identity`.
    """

    source: Hashable
    columns: ReadAs
    shown: ShownRows
    condition: Hashable


@dataclass(frozen=True, slots=True)
class _Fulfilling:
    """Names the rows of a fragment, visible or not, that are not deleted and fulfil a condition.

    Equal for the same stored rows and deletions, in every version that makes the condition's columns of the
    same stored ones.

    Attributes:
        files: of the fragment.
        deletions: of the fragment; None where no row is deleted.
        condition: see `Condition.identity`.
        columns: that the condition reads: name, type, and the values; None where the fragment has none.
    """

    files: FragmentFiles
    deletions: Deletions | None
    condition: Hashable
    columns: tuple[tuple[str, pa.DataType, StoredValues | None], ...]


@dataclass(frozen=True, eq=False)
class Admission:
    """Narrows the sources of one search.

    Args:
        table: its name, for messages.
        policy: what the principal may see of it; None for everything.
        cache: keeps masks.
        executor: reads several fragments at a time.
        check: raises once the statement was stopped.
        indexed: columns of the base table in which a scalar index finds values.
    """

    table: str
    policy: TablePolicy | None
    cache: ByteCache
    executor: Executor
    check: Callable[[], None]
    indexed: frozenset[str] = frozenset()

    def shown_columns(self, schema: pa.Schema) -> frozenset[str]:
        """Columns of a table that exist for the principal."""
        return frozenset(schema.names if self.policy is None else self.policy.schema.names)

    def visible(self, sources: Sequence[SearchSource]) -> tuple[SearchSource, ...]:
        """The sources without rows that the policy hides: for whoever asks, these do not exist.

        Raises:
            PreconditionError: the policy can't be evaluated for a row.
        """
        shows = shows_of(self.table, self.policy)
        return tuple(sources) if shows is None else self._narrowed(sources, shows)

    def admitted(
        self,
        sources: Sequence[SearchSource],
        statement: PredicateFilter | None,
        conditions: Sequence[Condition] = (),
    ) -> tuple[tuple[SearchSource, ...], RowFilter | None]:
        """The sources without rows that a statement's conditions exclude.

        Args:
            sources: what `visible` returned, or some of it.
            statement: the conjuncts that Arrow can say.
            conditions: those that it can't.

        Returns:
            The sources, and what remains to be applied to them: by Lance, which can say it in every
            dataset among them, and to rows in memory.

        Raises:
            InvalidInputError: a condition fails for a row.
        """
        remaining: RowFilter | None = None
        evaluated = list(conditions)
        if statement is not None:
            if self._is_for_lance(statement, sources):
                remaining = statement
            else:
                evaluated.insert(0, StoredCondition(statement))
        narrowed = reduce(self._narrowed, map(self._policed, evaluated), tuple(sources))
        return narrowed, remaining

    def _is_for_lance(self, statement: PredicateFilter, sources: Sequence[SearchSource]) -> bool:
        is_indexed = not self.indexed.isdisjoint(statement.columns)
        return is_indexed and not self._is_masked(statement) and _can_be_said(statement, sources)

    def _is_masked(self, condition: RowFilter) -> bool:
        return self.policy is not None and not self.policy.masks.keys().isdisjoint(condition.columns)

    def _policed(self, condition: Condition) -> Condition:
        """The condition, kept from true values and hidden rows."""
        if self.policy is None:
            return condition
        hidden = condition.columns.difference(self.policy.schema.names)
        if hidden:
            msg = f"a condition on table {self.table!r} reads columns that its access policy hides"
            raise AssertionError(msg)
        if isinstance(condition, StoredCondition) and not self._is_masked(condition):
            return condition
        return Policed(self.table, self.policy, condition)

    def _narrowed(self, sources: Iterable[SearchSource], condition: Condition) -> tuple[SearchSource, ...]:
        return tuple(replace(one, live=self._live(one, condition)) for one in sources)

    def _live(self, source: SearchSource, condition: Condition) -> RowMask:
        """The mask of a source without rows that don't fulfil a condition."""
        self.check()
        if condition.identity is None:
            return self._found(source, condition)
        shown = source.live.digests(source.fragments)
        key = _AdmittedRows(source.identity, _read_as(source, condition), shown, condition.identity)
        known: RowMask | None = self.cache.get(key)
        if known is None:
            known = self._found(source, condition)
            self.cache.put(key, known, known.nbytes + _OVERHEAD)
        return known

    def _found(self, source: SearchSource, condition: Condition) -> RowMask:
        rows = source.rows
        if isinstance(rows, MemTableSource):
            return self._found_in_memory(rows, source.live.fragments.get(0), condition)

        def of_fragment(fragment_id: int) -> tuple[int, FragmentMask]:
            before = source.live.fragments.get(fragment_id)
            return fragment_id, self._found_in_fragment(rows, fragment_id, before, condition)

        return RowMask(dict(self.executor.map(of_fragment, source.fragments)))

    def _found_in_fragment(
        self, rows: LanceSource, fragment_id: int, before: FragmentMask | None, condition: Condition
    ) -> FragmentMask:
        if condition.spares_other_rows:
            return self._of_some_rows(rows, fragment_id, before, condition)
        key = _content(rows, fragment_id, condition)
        found: FragmentMask | str | None = None if key is None else self.cache.get(key)
        if found is None:
            try:
                found = self._of_fragment(rows, fragment_id, None, condition)
            except _FailedForARow:
                found = _FAILS_FOR_A_ROW
            if key is not None:
                self.cache.put(key, found, _bytes_of(found) + _OVERHEAD)
        if isinstance(found, str):
            return self._of_some_rows(rows, fragment_id, before, condition)
        return found if before is None else found.both(before)

    def _of_some_rows(
        self, rows: LanceSource, fragment_id: int, before: FragmentMask | None, condition: Condition
    ) -> FragmentMask:
        """As `_of_fragment`, without a look at rows that the mask hides."""
        try:
            return self._of_fragment(rows, fragment_id, before, condition)
        except _FailedForARow as failed:
            raise condition.refusal(failed.reason) from None

    def _of_fragment(
        self, rows: LanceSource, fragment_id: int, shown: FragmentMask | None, condition: Condition
    ) -> FragmentMask:
        """Rows of a fragment that are not deleted, that a mask shows, and that fulfil a condition."""
        dataset: Any = rows.dataset
        fragment = rows.fragments.get(fragment_id)
        names = sorted(condition.columns)
        said = condition.sql(rows.stored_names) if rows.has_plain_columns(names) else None
        scanner = dataset.scanner(
            columns=[] if said else [rows.stored_names[name] for name in names if name in rows.stored],
            filter=said,
            fragments=[fragment.handle],
            batch_size=CHUNK_ROWS if said or _are_narrow(rows, names) else _FEW_ROWS,
            batch_readahead=_READ_AHEAD,
            with_row_address=True,
        )
        flags = np.zeros(fragment.physical_rows, dtype=np.bool_)
        schema = pa.schema([*(rows.schema.field(name) for name in names), _ADDRESS_FIELD])
        for scanned in scanner.to_batches():
            self.check()
            found = (
                scanned
                if shown is None
                else RowMask({fragment_id: shown}).keep(scanned, scanned[ROW_ADDRESS])
            )
            if said is None and found.num_rows:
                arrays = [*convert_columns(found, list(schema)[:-1], rows.stored), found.column(ROW_ADDRESS)]
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                found = found.filter(_matches(condition, batch))
            flags[found.column(ROW_ADDRESS).to_numpy() & OFFSET_MASK] = True
        return FragmentMask(pa.array(flags), hides_deleted=True)

    def _found_in_memory(
        self, rows: MemTableSource, before: FragmentMask | None, condition: Condition
    ) -> RowMask:
        """Rows of a log tail; only the visible ones are looked at."""
        shown = np.ones(rows.rows.num_rows, dtype=np.bool_)
        if before is not None:
            shown = before.visible.to_numpy(zero_copy_only=False)
        places = np.flatnonzero(shown)
        flags = np.zeros(len(shown), dtype=np.bool_)
        needed = rows.rows.select(sorted(condition.columns)).append_column(
            _ADDRESS_FIELD, pa.array(np.arange(len(shown), dtype=np.uint64))
        )
        for batch in needed.take(pa.array(places)).to_batches(max_chunksize=CHUNK_ROWS):
            self.check()
            try:
                found = batch.filter(_matches(condition, batch))
            except _FailedForARow as failed:
                raise condition.refusal(failed.reason) from None
            flags[found.column(ROW_ADDRESS).to_numpy()] = True
        return RowMask({0: FragmentMask(pa.array(flags), hides_deleted=True)})


def indexed_columns(base: BaseTable) -> frozenset[str]:
    """Columns of a base table in which a scalar index finds values."""
    return frozenset(index.columns[0] for index in base.indexes if index.type in _FINDING)


def below_policy(statement: PredicateFilter | None, policy: TablePolicy | None) -> PredicateFilter | None:
    """What is known of stored rows that are admitted, for excluding regions; None where nothing is.

    Args:
        statement: the conjuncts that Arrow can say.
        policy: of the table; what the statement says of masked columns is not about stored values.
    """
    if policy is None:
        return statement
    known = [policy.predicate]
    if statement is not None:
        predicate = statement.predicate
        operands = predicate.operands if isinstance(predicate, And) else (predicate,)
        known += [one for one in operands if is_understood(one) and not columns_of(one) & policy.masks.keys()]
    below = conjunction(known)
    return None if below == TRUE else PredicateFilter(below, pc.scalar(value=True))


class _FailedForARow(Exception):  # noqa: N818 - never leaves this module
    """A condition can't be evaluated for some row."""

    def __init__(self, reason: Exception) -> None:
        super().__init__()
        self.reason = reason


def _read_as(source: SearchSource, condition: Condition) -> ReadAs:
    """How the columns that a condition reads are made of stored ones: not the same in every version."""
    rows, names = source.rows, sorted(condition.columns)
    if isinstance(rows, MemTableSource):
        return tuple((name, rows.rows.schema.field(name).type, None) for name in names)
    ids = rows.stored_types
    return tuple(
        (name, rows.schema.field(name).type, None if stored is None else (ids[stored.name][0], stored.type))
        for name, stored in ((name, rows.stored.get(name)) for name in names)
    )


def _are_narrow(rows: LanceSource, columns: Iterable[str]) -> bool:
    return all(pa.types.is_primitive(rows.schema.field(name).type) for name in columns)


def _content(rows: LanceSource, fragment_id: int, condition: Condition) -> _Fulfilling | None:
    """What names the rows of a fragment that fulfil a condition, in every version that has its files."""
    if condition.identity is None:
        return None
    fragment = rows.fragments.get(fragment_id)
    names = sorted(condition.columns)
    stored = [rows.stored_names[name] for name in names if name in rows.stored]
    values = dict(zip(stored, fragment.columns(stored, rows.stored_types), strict=True))
    return _Fulfilling(
        fragment.files,
        fragment.deletions,
        condition.identity,
        tuple(
            (name, rows.schema.field(name).type, values.get(rows.stored_names.get(name, "")))
            for name in names
        ),
    )


def _bytes_of(found: FragmentMask | str) -> int:
    return int(found.visible.nbytes) if isinstance(found, FragmentMask) else 0


def _matches(condition: Condition, batch: pa.RecordBatch) -> pa.BooleanArray:
    try:
        return condition.matches(batch)
    except Exception as error:  # noqa: BLE001 - whatever DataFusion or a policy has to say
        raise _FailedForARow(error) from None


def _can_be_said(condition: RowFilter, sources: Iterable[SearchSource]) -> bool:
    """Whether Lance can apply a condition in every dataset."""
    columns = sorted(condition.columns)
    return all(
        rows.has_plain_columns(columns) and condition.sql(rows.stored_names) is not None
        for rows in (one.rows for one in sources)
        if isinstance(rows, LanceSource)
    )
