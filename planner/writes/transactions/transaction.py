"""Transactions: statements that read one snapshot of each table, and whose writes happen together at the end.

A table's snapshot is taken when the transaction first reads it. Rows that are written stay in memory, on top
of the snapshots, until COMMIT writes them: each region's in one entry of its log. COMMIT first claims the
regions of all rows that statements have read before they changed them, and fails without writing anything
if others have changed one of these rows since the snapshot.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import pyarrow as pa

from lance_gateway.execnodes import KeySet
from lance_gateway.memwal.errors import (
    ConflictError,
    LanceGatewayError,
    PreconditionError,
    ResourcesExhaustedError,
)
from lance_gateway.memwal.writing import Changes, PartlyWrittenError, WriteReceipt
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.state.transaction_table import (
    DescribedTable,
    TransactionTable,
    build_own_rows,
)
from lance_gateway.planner.writes.dml.reading.read_rows import format_key, select_distinct_keys
from lance_gateway.planner.writes.dml.statement.target import Target
from lance_gateway.planner.writes.dml.writing_step import retry_if_fenced
from lance_gateway.planner.writes.transactions.others import check_same, find_difference, find_newest
from lance_gateway.planner.writes.transactions.written_table import Mark, WrittenTable, merge_changes

Reserve = Callable[[int], None]
"""Books so many bytes more, or less, of all transactions together; refuses what is too much."""


class Transaction:
    """One transaction; its statements may be executed by any thread, those that write one after another.

    Args:
        engine: reads and writes its tables.
        max_bytes: that its writes may have until they are committed.
        reserve: books bytes of all transactions together.
    """

    def __init__(self, engine: QueryPlanner, max_bytes: int, reserve: Reserve = lambda _: None) -> None:
        self._engine = engine
        self._max_bytes = max_bytes
        self._reserve = reserve
        self._statement = threading.RLock()
        self._lock = threading.RLock()
        self._read: dict[str, TransactionTable] = {}
        self._written: dict[str, WrittenTable] = {}
        self._nbytes = 0
        self._end: str | None = None
        self._is_read_only = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._end is not None

    @property
    def is_fresh(self) -> bool:
        """Whether it has neither read nor written anything yet."""
        return not (self._read or self._written)

    @property
    def changed_tables(self) -> Sequence[str]:
        """Names of the tables that COMMIT would write to."""
        return sorted(name for name, one in list(self._written.items()) if one.changes)

    def set_read_only(self, is_read_only: bool) -> None:  # noqa: FBT001 - a mode of SQL
        """Choose whether it may write.

        Raises:
            PreconditionError: it has begun to read or to write, or has ended.
        """
        self._check_open()
        if not self.is_fresh:
            msg = "the transaction has read or written something: SET TRANSACTION comes before that"
            raise PreconditionError(msg)
        self._is_read_only = is_read_only

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and keys that wait for COMMIT."""
        return self._nbytes

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Execute a statement in this block, after others that write; take its rows back if it fails."""
        with self._statement:
            before = {
                name: Mark(
                    len(one.changes),
                    len(one.read_keys),
                    {region_id: len(tables) for region_id, tables in one.rows.items()},
                )
                for name, one in self._written.items()
            }
            try:
                yield
            except BaseException:
                self._take_back(before)
                raise

    def table(self, shared: Table) -> Table:
        """Return a table of the catalog as the transaction sees it; its past is what it is.

        Raises:
            ConflictError: it was altered since the transaction has read or written it.
            LanceGatewayError: its snapshot can't be taken.
        """
        if shared.described_time:
            return shared
        with self._lock:
            self._check_open()
            found = self._read.get(shared.name)
            if found is None:
                found = TransactionTable.take(shared)
                written = self._written.get(shared.name)
                if written is not None:
                    check_same(shared.name, written.base, found.base())
                    found.show_rows(written.rows)
                self._read[shared.name] = found
            else:
                check_same(shared.name, found.base(), shared.find_recent_base())
            return found

    def describe(self, tables: Iterable[Table]) -> Mapping[str, DescribedTable]:
        """Describe tables as the transaction sees them, by name, for another process.

        Raises:
            LanceGatewayError: a snapshot can't be taken.
        """
        described: dict[str, DescribedTable] = {}
        with self._lock:
            for shared in tables:
                table = self.table(shared)
                if isinstance(table, TransactionTable):
                    written = self._written.get(shared.name)
                    number, rows = (b"", {}) if written is None else (written.number, written.encode())
                    described[shared.name] = DescribedTable(number, table.describe(), rows)
        return described

    def write(self, target: Target, changes: Changes, *, reads_first: bool = False) -> WriteReceipt:
        """Keep changes until COMMIT, and show them to later statements of the transaction.

        Args:
            target: the table.
            changes: checked as for a write.
            reads_first: whether they were computed from rows of the same keys.

        Raises:
            ResourcesExhaustedError: the transaction is too large.
            PreconditionError: it only reads, or has ended.
            LanceGatewayError: the rows can't be written.
        """
        self._check_may_write()
        parts = target.table.writer().split(changes)
        with self._lock:
            self._check_open()
            written = self._written.get(target.name) or self._open_written(target)
            self._book(changes.nbytes)
            written.changes.append(changes)
            if reads_first:
                written.read_keys += [
                    part.select(list(target.key))
                    for part in (changes.upserts, changes.deletes)
                    if part is not None
                ]
            for region_id, part in parts.items():
                written.rows.setdefault(region_id, []).append(build_own_rows(written.base, *part))
            self._written[target.name] = written
            read = self._read.get(target.name)
            if read is not None:
                read.show_rows(written.rows)
        counts = {
            region_id: sum(0 if one is None else one.num_rows for one in part)
            for region_id, part in parts.items()
        }
        return WriteReceipt(counts)

    def commit(self) -> None:
        """Write all changes, and end the transaction, whether it succeeds or not.

        Raises:
            ConflictError: others changed rows that the transaction has read and changed; nothing was written.
            PartlyWrittenError: some regions have their rows, and others have not.
            LanceGatewayError: nothing was written.
        """
        with self._statement:
            self._check_open()
            try:
                self._commit()
            finally:
                self.roll_back("its COMMIT was sent before")

    def commit_before(self) -> None:
        """Write all changes before a statement that can't be undone; the transaction goes on with nothing.

        Raises:
            PreconditionError: it only reads, or has ended.
            LanceGatewayError: as `commit`.
        """
        self._check_may_write()
        self.go_on(commits=True)

    def go_on(self, *, commits: bool) -> None:
        """Write all changes, or forget them; the transaction goes on with nothing, as if it had just begun.

        Raises:
            PreconditionError: it has ended.
            LanceGatewayError: as `commit`.
        """
        with self._statement:
            self._check_open()
            try:
                if commits:
                    self._commit()
            finally:
                self._forget()

    def roll_back(self, why: str = "it was rolled back") -> None:
        """End the transaction without writing anything; may be called again.

        Args:
            why: for statements that come later.
        """
        if self._end is None:
            self._end = why
        self._forget()

    def _forget(self) -> None:
        with self._lock:
            self._read.clear()
            self._written.clear()
            self._reserve(-self._nbytes)
            self._nbytes = 0

    def _check_open(self) -> None:
        if self._end is not None:
            msg = (
                f"the transaction has ended: {self._end}; roll it back, begin another one and send its "
                "statements again"
            )
            raise PreconditionError(msg)

    def _check_may_write(self) -> None:
        self._check_open()
        if self._is_read_only:
            msg = "the transaction is READ ONLY and changes nothing: begin one that is READ WRITE"
            raise PreconditionError(msg)

    def _book(self, nbytes: int) -> None:
        if self._nbytes + nbytes > self._max_bytes:
            msg = (
                f"the transaction would keep {self._nbytes + nbytes} bytes of rows until COMMIT, and "
                f"{self._max_bytes} are allowed: commit more often, load with autocommit, or ask the "
                "operator to raise max_transaction_bytes"
            )
            raise ResourcesExhaustedError(msg)
        self._reserve(nbytes)
        self._nbytes += nbytes

    def _open_written(self, target: Target) -> WrittenTable:
        read = self._read.get(target.name)
        base = target.base if read is None else read.base()
        check_same(target.name, target.base, base)
        return WrittenTable(target, base)

    def _take_back(self, before: Mapping[str, Mark]) -> None:
        with self._lock:
            for name, one in self._written.items():
                mark = before.get(name, Mark(0, 0, {}))
                if len(one.changes) == mark.changes:
                    continue
                dropped = sum(changes.nbytes for changes in one.changes[mark.changes :])
                self._nbytes -= dropped
                self._reserve(-dropped)
                del one.changes[mark.changes :], one.read_keys[mark.read_keys :]
                for region_id, tables in one.rows.items():
                    del tables[mark.rows.get(region_id, 0) :]
                    del one.encoded.get(region_id, [])[len(tables) :]
                one.number = os.urandom(8)
                read = self._read.get(name)
                if read is not None:
                    self._read[name] = TransactionTable(one.target.table, read.snapshot)
                    self._read[name].show_rows(one.rows)

    def _commit(self) -> None:
        tables = [one for _, one in sorted(self._written.items()) if one.changes]
        if tables:
            names = ", ".join(one.target.name for one in tables)
            retry_if_fenced(lambda: self._write_all(tables), names)

    def _write_all(self, tables: Sequence[WrittenTable]) -> None:
        """Write all tables, or none if others have changed what was read.

        Raises:
            FencedError: nothing was written, since another process claimed a region.
            LanceGatewayError: see `commit`.
        """
        with ExitStack() as stack:
            first, later = [], []
            for one in tables:
                check_same(one.target.name, one.base, find_newest(one.target))
                writer = one.target.table.writer()
                if one.read_keys:
                    held = stack.enter_context(writer.exclusive(frozenset(one.rows)))
                    self._check_unchanged(one)
                    first.append((one, held.write))
                else:
                    later.append((one, writer.write))
            done: list[WriteReceipt] = []
            for one, write in (*first, *later):
                try:
                    done.append(write(merge_changes(one), durable=True))
                except LanceGatewayError as error:
                    if not done:
                        raise
                    raise _add_progress(error, one, tables, done) from error

    def _check_unchanged(self, written: WrittenTable) -> None:
        """Check that nobody has changed rows since they were read.

        Raises:
            ConflictError: somebody has.
        """
        target, read = written.target, self._read[written.target.name]
        newest = target.table.take_snapshot(written.rows, "strong")
        before = TransactionTable(target.table, read.snapshot)
        if before.take_snapshot(written.rows).identity == newest.identity:
            return
        now = TransactionTable(target.table, newest)
        keys = select_distinct_keys(pa.concat_tables(written.read_keys), target.key)
        changed = find_difference(
            self._read_keys(target, before, keys), self._read_keys(target, now, keys), target.key
        )
        if changed is not None:
            msg = (
                f"the row {format_key(changed)} of table {target.name!r} was changed by others since the "
                "transaction read it, and nothing of the transaction was written: begin it again"
            )
            raise ConflictError(msg)

    def _read_keys(self, target: Target, table: TransactionTable, keys: pa.Table) -> pa.Table:
        schema = target.base.schema
        key_set = KeySet(keys.cast(pa.schema([schema.field(name) for name in target.key])))
        control = RunControl()
        secured = SecuredTable(table, FULL_ACCESS.of(target.name) or target.secured.access)
        batches = self._engine.look_up_rows(secured, key_set, schema.names, DEFAULT_SETTINGS, control)
        return pa.Table.from_batches(batches, schema)


def _add_progress(
    error: LanceGatewayError,
    failed: WrittenTable,
    tables: Sequence[WrittenTable],
    done: Sequence[WriteReceipt],
) -> LanceGatewayError:
    """Return the error of a COMMIT that has written some tables when it failed."""
    regions = {region_id: rows for receipt in done for region_id, rows in receipt.regions.items()}
    if isinstance(error, PartlyWrittenError):
        regions |= error.receipt.regions
    msg = (
        f"COMMIT wrote {len(done)} of {len(tables)} tables ({sum(one.num_rows for one in done)} rows) before "
        f"it failed at table {failed.target.name!r}: {error}; what was written stays"
    )
    return PartlyWrittenError(msg, WriteReceipt(regions))
