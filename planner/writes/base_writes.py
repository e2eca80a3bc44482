"""Writes to the base table: of tables without MemWAL, and of rows of tables without a key.

Each statement is one commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes import LanceScanExec, TaskContext
from lance_gateway.memwal.errors import PreconditionError, UnsupportedError
from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.memwal.writing import (
    BaseChange,
    BaseRows,
    FencedError,
    commit_base_change,
    commit_moved_rows,
    discard_files,
    group_by_fragment,
)
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.decoded_columns import StoredColumns
from lance_gateway.planner.tables.sources.generations import GenerationVanishedError
from lance_gateway.planner.tables.state.table import Table

_CHECK_SECONDS = 0.1
_ATTEMPTS = 12


@dataclass(frozen=True, eq=False)
class BaseWrite:
    """One attempt of a statement to commit to a base table.

    Attributes:
        table: that is written.
        base: its newest version when the attempt began; what the statement reads is as new, or newer.
        control: cancels the statement before it commits.
    """

    table: Table
    base: BaseTable
    control: RunControl

    @staticmethod
    def begin(table: Table, control: RunControl) -> BaseWrite:
        """Begin an attempt with the newest version.

        Raises:
            UnsupportedError: the statement is part of a transaction, which can't take a commit back.
            LanceGatewayError: the statement was stopped, or the version can't be read.
        """
        if control.transaction is not None:
            msg = (
                f"table {table.name!r} has no MemWAL or no primary key, so the statement would commit at "
                "once, and a transaction could not take that back: COMMIT or ROLLBACK first, and execute it "
                "outside of a transaction"
            )
            raise UnsupportedError(msg)
        control.check()
        return BaseWrite(table, table.base(), control)

    @cached_property
    def _read(self) -> BaseRows:
        return _open(self.base)

    def write(self, rows: Iterator[pa.Table], removed: Sequence[np.ndarray] = ()) -> None:
        """Commit new rows, and take others out.

        Args:
            rows: new rows, with all columns of the table; they are checked, and streamed to files.
            removed: addresses of the rows that go; may be filled while `rows` is read.

        Raises:
            FencedError: others changed the rows that go; nothing was written.
            PreconditionError: the table was altered, or recreated; nothing was written.
            LanceGatewayError: a row violates a rule, or storage failed.
        """
        added = self._read.write_files(map(self._read.check, self._limit(rows)))
        if not (added or removed):
            return
        try:
            self.control.begin_writing()
        except BaseException:
            discard_files(self.table.storage, added)
            raise
        change = BaseChange(added, group_by_fragment(removed))
        with self.table.commit_lock:
            commit_base_change(self._read, self._find_newest, change)
        self.table.note_write()

    def _limit(self, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the rows as long as there is room for them."""
        for table in rows:
            self.table.take_room(table.nbytes)
            yield table

    def move(self, pending: Mapping[str, Sequence[FlushedGeneration]]) -> bool:
        """Move generations to the base table; return False if others did meanwhile.

        Args:
            pending: generations of each region that the base version does not have, oldest first.
        """
        added = self._read.write_files(self._read_generations(pending))
        before = {region_id: self.base.merged_generations.get(region_id, 0) for region_id in pending}
        merged = {region_id: found[-1].generation for region_id, found in pending.items()}
        with self.table.commit_lock:
            done = commit_moved_rows(self._read, self._find_newest, added, before, merged)
        self.table.note_write()
        return done

    def _read_generations(self, pending: Mapping[str, Sequence[FlushedGeneration]]) -> Iterator[pa.Table]:
        context = TaskContext(check=self.control.check)
        schema = self._read.schema
        for region_id, found in pending.items():
            for generation in self.table.open_generations(self.base, region_id, found):
                fragments = (tuple(generation.fragment_rows),)
                columns = tuple(schema.names)
                scan = LanceScanExec(generation.source(self.base), columns, fragments, StoredColumns())
                for batch in scan.execute(0, context):
                    yield pa.Table.from_arrays(batch.columns, schema=schema)

    @staticmethod
    @contextmanager
    def queue(table: Table, control: RunControl) -> Iterator[None]:
        """Let statements of this process that were too late run again one after another.

        Raises:
            LanceGatewayError: the statement was cancelled while it waited.
        """
        while not table.retry_lock.acquire(timeout=_CHECK_SECONDS):
            control.check()
        try:
            yield
        finally:
            table.retry_lock.release()

    def _find_newest(self) -> BaseRows:
        newest = self.table.base()
        if newest.place != self.base.place or (newest.details is None) != (self.base.details is None):
            msg = (
                f"table {newest.name!r} was recreated, or got a MemWAL, while the statement ran, and nothing "
                "was written: send it again"
            )
            raise PreconditionError(msg)
        return _open(newest)


def move_to_base(table: Table, control: RunControl) -> None:
    """Move all rows that a table without a key has in logs and generations to its base table.

    They become rows with addresses. Rows that are acknowledged while this runs may be left.

    Raises:
        LanceGatewayError: rows can't be flushed, read or committed; nothing was lost or written twice.
    """
    _flush(table, control)
    while True:
        control.check()
        manifests = table.read_manifests()
        base = table.base()  # After the manifests, so that what is merged in between is known.
        merged = base.merged_generations
        pending = {one.region_id: one.unmerged_generations(merged.get(one.region_id, 0)) for one in manifests}
        pending = {region_id: found for region_id, found in pending.items() if found}
        if not pending:
            return
        write = BaseWrite(table, base, control)
        try:
            if write.move(pending):
                return
        except GenerationVanishedError:
            continue  # Others moved and removed it.


def _flush(table: Table, control: RunControl) -> None:
    """Flush every row that was acknowledged so far, whoever wrote it.

    Raises:
        FencedError: other writers claimed regions again and again; they flush what is left some time.
    """
    writer = table.writer()
    writer.flush()
    left = _find_unflushed(table)
    wanted = {region_id: max(positions) for region_id, positions in left.items()}
    for _ in range(_ATTEMPTS):
        control.check()
        behind = {
            region_id for region_id, positions in left.items() if min(positions) <= wanted.get(region_id, -1)
        }
        if not behind:
            return
        with suppress(FencedError), writer.exclusive(behind):
            pass  # Claimed: what their logs have is here now, and former owners notice.
        writer.flush()
        left = _find_unflushed(table)
    msg = f"regions of table {table.name!r} were claimed by other writers before they were flushed"
    raise FencedError(msg)


def _find_unflushed(table: Table) -> Mapping[str, Sequence[int]]:
    """Return the positions of log entries with rows that no generation has, by region id."""
    found = {}
    for manifest in table.read_manifests():
        try:
            entries = table.read_unflushed(manifest)
        except FileNotFoundError:
            continue  # Flushed and removed since the manifest was read.
        if entries:
            found[manifest.region_id] = [one.position for one in entries]
    return found


def _open(base: BaseTable) -> BaseRows:
    return BaseRows(base.name, base.storage, base.dataset)
