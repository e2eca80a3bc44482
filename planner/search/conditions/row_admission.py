"""Restrict the sources of a search to the rows that its conditions admit, before rows are ranked.

A condition for which the base table has a scalar index is handed to Lance with the search. For all others the
columns that they read are scanned, and what is admitted becomes a narrower mask of the source:

    WHERE id < 10                  sources as they are, row_filter "`id` < 10" (id has a BTREE index)
    WHERE price < 10               masks narrowed to the rows with such prices, no row_filter
    WHERE title LIKE 'A%'          masks narrowed to the rows with such titles, no row_filter

The rows of a fragment's files that fulfil a condition never change, so their mask is cached: a condition
costs one scan of each fragment, not one per search. If it fails for a row, only visible rows are evaluated.
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

from lance_gateway.execnodes import LanceSource, MemTableSource, RowFilter, RowMask
from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_MASK, FragmentMask, ShownRows
from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.execnodes.storage.blob_rows import choose_batch_rows
from lance_gateway.execnodes.storage.data_files import Deletions, FragmentFiles, StoredValues
from lance_gateway.execnodes.storage.source import convert_columns
from lance_gateway.memwal.rules import InitialValue
from lance_gateway.planner.access.table_policy import TablePolicy
from lance_gateway.planner.predicates.predicate import TRUE, And, conjunction
from lance_gateway.planner.predicates.row_filter import PredicateFilter, find_columns, is_understood
from lance_gateway.planner.search.conditions.row_conditions import (
    Condition,
    PolicedCondition,
    StoredCondition,
    build_policy_condition,
)
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.caches import ByteCache

_VALUE_INDEXES = frozenset({"BTree", "Bitmap"})
"""Types of indexes that find the rows with a value; others only tell where it is not."""

_OVERHEAD = 256
_FEW_ROWS = 8192
"""Of texts and lists, which may be long, so many rows are evaluated at a time."""
_READ_AHEAD = 4
_FAILS_FOR_SOME_ROW = "fails for a row"
"""Kept in place of a mask."""
_ADDRESS_FIELD = pa.field(ROW_ADDRESS, pa.uint64())


ReadAs = tuple[tuple[str, pa.DataType, tuple[int, pa.DataType] | InitialValue | None], ...]
"""Name and type of columns of a table, and what they are made of: field id and type of the stored column."""


@dataclass(frozen=True, slots=True)
class _AdmittedRowsName:
    """Cache key of the mask of a source's rows that fulfil a condition.

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
class _FragmentRowsName:
    """Cache key of the undeleted rows of a fragment, visible or not, that fulfil a condition.

    Equal for the same stored rows and deletions, in every version that makes the condition's columns of the
    same stored ones.

    Attributes:
        files: of the fragment.
        deletions: of the fragment; None where no row is deleted.
        condition: see `Condition.identity`.
        columns: that the condition reads: name, type, and the values, stored ones or the initial one.
    """

    files: FragmentFiles
    deletions: Deletions | None
    condition: Hashable
    columns: tuple[tuple[str, pa.DataType, StoredValues | InitialValue | None], ...]


@dataclass(frozen=True, eq=False)
class Admission:
    """Restrict the sources of one search to the rows that a principal and conditions admit.

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

    def list_visible_columns(self, schema: pa.Schema) -> frozenset[str]:
        """Return the columns of a table that the principal may see."""
        return frozenset(schema.names if self.policy is None else self.policy.schema.names)

    def restrict_to_visible(self, sources: Sequence[SearchSource]) -> tuple[SearchSource, ...]:
        """Restrict sources to the rows that the policy shows.

        Raises:
            PreconditionError: the policy can't be evaluated for a row.
        """
        shows = build_policy_condition(self.table, self.policy)
        return tuple(sources) if shows is None else self._narrow_sources(sources, shows)

    def restrict_to_conditions(
        self,
        sources: Sequence[SearchSource],
        statement: PredicateFilter | None,
        conditions: Sequence[Condition] = (),
    ) -> tuple[tuple[SearchSource, ...], RowFilter | None]:
        """Restrict sources to the rows that fulfil a statement's conditions.

        Args:
            sources: what `restrict_to_visible` returned, or some of it.
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
            if self._is_evaluated_by_lance(statement, sources):
                remaining = statement
            else:
                evaluated.insert(0, StoredCondition(statement))
        narrowed = reduce(self._narrow_sources, map(self._apply_policy, evaluated), tuple(sources))
        return narrowed, remaining

    def _is_evaluated_by_lance(self, statement: PredicateFilter, sources: Sequence[SearchSource]) -> bool:
        is_indexed = not self.indexed.isdisjoint(statement.columns)
        return is_indexed and not self._is_masked(statement) and _is_expressible(statement, sources)

    def _is_masked(self, condition: RowFilter) -> bool:
        return self.policy is not None and not self.policy.masks.keys().isdisjoint(condition.columns)

    def _apply_policy(self, condition: Condition) -> Condition:
        """Apply the policy to a condition: it reads masked values of visible rows."""
        if self.policy is None:
            return condition
        hidden = condition.columns.difference(self.policy.schema.names)
        if hidden:
            msg = f"a condition on table {self.table!r} reads columns that its access policy hides"
            raise AssertionError(msg)
        if isinstance(condition, StoredCondition) and not self._is_masked(condition):
            return condition
        return PolicedCondition(self.table, self.policy, condition)

    def _narrow_sources(
        self, sources: Iterable[SearchSource], condition: Condition
    ) -> tuple[SearchSource, ...]:
        return tuple(replace(source, live=self._narrow_mask(source, condition)) for source in sources)

    def _narrow_mask(self, source: SearchSource, condition: Condition) -> RowMask:
        self.check()
        if condition.identity is None:
            return self._scan_source(source, condition)
        shown = source.live.digests(source.fragments)
        key = _AdmittedRowsName(
            source.identity, _describe_columns(source, condition), shown, condition.identity
        )
        known: RowMask | None = self.cache.get(key)
        if known is None:
            known = self._scan_source(source, condition)
            self.cache.put(key, known, known.nbytes + _OVERHEAD)
        return known

    def _scan_source(self, source: SearchSource, condition: Condition) -> RowMask:
        rows = source.rows
        if isinstance(rows, MemTableSource):
            return self._scan_tail(rows, source.live.fragments.get(0), condition)

        def of_fragment(fragment_id: int) -> tuple[int, FragmentMask]:
            before = source.live.fragments.get(fragment_id)
            return fragment_id, self._scan_fragment(rows, fragment_id, before, condition)

        return RowMask(dict(self.executor.map(of_fragment, source.fragments)))

    def _scan_fragment(
        self, rows: LanceSource, fragment_id: int, before: FragmentMask | None, condition: Condition
    ) -> FragmentMask:
        if condition.needs_visible_rows:
            return self._scan_visible_rows(rows, fragment_id, before, condition)
        key = _name_fragment_rows(rows, fragment_id, condition)
        found: FragmentMask | str | None = None if key is None else self.cache.get(key)
        if found is None:
            try:
                found = self._scan_rows(rows, fragment_id, None, condition)
            except _EvaluationError:
                found = _FAILS_FOR_SOME_ROW
            if key is not None:
                self.cache.put(key, found, _count_bytes(found) + _OVERHEAD)
        if isinstance(found, str):
            return self._scan_visible_rows(rows, fragment_id, before, condition)
        return found if before is None else found.both(before)

    def _scan_visible_rows(
        self, rows: LanceSource, fragment_id: int, before: FragmentMask | None, condition: Condition
    ) -> FragmentMask:
        """Call `_scan_rows` for visible rows only, and raise the condition's error."""
        try:
            return self._scan_rows(rows, fragment_id, before, condition)
        except _EvaluationError as failed:
            raise condition.build_error(failed.reason) from None

    def _scan_rows(
        self, rows: LanceSource, fragment_id: int, shown: FragmentMask | None, condition: Condition
    ) -> FragmentMask:
        """Scan a fragment for undeleted rows that a mask shows and that fulfil a condition."""
        dataset: Any = rows.dataset
        fragment = rows.fragments.get(fragment_id)
        names = sorted(condition.columns)
        said = condition.sql(rows.stored_names) if rows.has_plain_columns(names) else None
        columns = [] if said else [rows.stored_names[name] for name in names if name in rows.stored]
        rows_of_batch = CHUNK_ROWS if said or _has_primitive_types(rows, names) else _FEW_ROWS
        scanner = dataset.scanner(
            columns=columns,
            filter=said,
            fragments=[fragment.handle],
            batch_size=min(rows_of_batch, choose_batch_rows(rows, (fragment_id,), columns)),
            batch_readahead=_READ_AHEAD,
            use_scalar_index=rows.trusts_scalar_indexes,
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
                found = found.filter(_evaluate(condition, batch))
            flags[found.column(ROW_ADDRESS).to_numpy() & OFFSET_MASK] = True
        return FragmentMask(pa.array(flags), hides_deleted=True)

    def _scan_tail(self, rows: MemTableSource, before: FragmentMask | None, condition: Condition) -> RowMask:
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
                found = batch.filter(_evaluate(condition, batch))
            except _EvaluationError as failed:
                raise condition.build_error(failed.reason) from None
            flags[found.column(ROW_ADDRESS).to_numpy()] = True
        return RowMask({0: FragmentMask(pa.array(flags), hides_deleted=True)})


def list_indexed_columns(base: BaseTable) -> frozenset[str]:
    """Return the columns of a base table that have a scalar index which finds values."""
    return frozenset(index.columns[0] for index in base.indexes if index.type in _VALUE_INDEXES)


def combine_with_policy(
    statement: PredicateFilter | None, policy: TablePolicy | None
) -> PredicateFilter | None:
    """Combine the conjuncts on stored values and the policy's, to exclude regions; None if there are none.

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
        known += [
            operand
            for operand in operands
            if is_understood(operand) and not find_columns(operand) & policy.masks.keys()
        ]
    below = conjunction(known)
    return None if below == TRUE else PredicateFilter(below, pc.scalar(value=True))


class _EvaluationError(Exception):
    """A condition can't be evaluated for a row."""

    def __init__(self, reason: Exception) -> None:
        super().__init__()
        self.reason = reason


def _describe_columns(source: SearchSource, condition: Condition) -> ReadAs:
    """Describe how the columns of a condition are read from stored ones, which versions may change."""
    rows, names = source.rows, sorted(condition.columns)
    if isinstance(rows, MemTableSource):
        return tuple((name, rows.rows.schema.field(name).type, None) for name in names)
    ids = rows.stored_types
    return tuple(
        (
            name,
            rows.schema.field(name).type,
            rows.stored.initial.get(name) if stored is None else (ids[stored.name][0], stored.type),
        )
        for name, stored in ((name, rows.stored.get(name)) for name in names)
    )


def _has_primitive_types(rows: LanceSource, columns: Iterable[str]) -> bool:
    return all(pa.types.is_primitive(rows.schema.field(name).type) for name in columns)


def _name_fragment_rows(
    rows: LanceSource, fragment_id: int, condition: Condition
) -> _FragmentRowsName | None:
    """Build the cache key of a fragment's rows that fulfil a condition; None without an identity."""
    if condition.identity is None:
        return None
    fragment = rows.fragments.get(fragment_id)
    names = sorted(condition.columns)
    stored = [rows.stored_names[name] for name in names if name in rows.stored]
    values = dict(zip(stored, fragment.columns(stored, rows.stored_types), strict=True))
    return _FragmentRowsName(
        fragment.files,
        fragment.deletions,
        condition.identity,
        tuple(
            (
                name,
                rows.schema.field(name).type,
                values[rows.stored_names[name]] if name in rows.stored else rows.stored.initial.get(name),
            )
            for name in names
        ),
    )


def _count_bytes(found: FragmentMask | str) -> int:
    return int(found.visible.nbytes) if isinstance(found, FragmentMask) else 0


def _evaluate(condition: Condition, batch: pa.RecordBatch) -> pa.BooleanArray:
    try:
        return condition.matches(batch)
    except Exception as error:  # noqa: BLE001 - whatever DataFusion or a policy has to say
        raise _EvaluationError(error) from None


def _is_expressible(condition: RowFilter, sources: Iterable[SearchSource]) -> bool:
    """Return whether Lance can apply a condition in every dataset."""
    columns = sorted(condition.columns)
    return all(
        rows.has_plain_columns(columns) and condition.sql(rows.stored_names) is not None
        for rows in (source.rows for source in sources)
        if isinstance(rows, LanceSource)
    )
