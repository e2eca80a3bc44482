"""Writes to tables without MemWAL: each is one commit of the base table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from memwal.errors import PreconditionError
from memwal.writing import BaseChange, BaseRows, commit_base_change, discard_files, group_by_fragment
from planner.bridge.run_control import RunControl
from planner.tables.sources.base_table import BaseTable
from planner.tables.state.table import Table

_CHECK_SECONDS = 0.1


@dataclass(frozen=True, eq=False)
class PlainWrite:
    """One attempt of a statement to write to a table without MemWAL.

    Attributes:
        table: that is written.
        base: its newest version when the attempt began; what the statement reads is as new, or newer.
        control: cancels the statement before it commits.
    """

    table: Table
    base: BaseTable
    control: RunControl

    @staticmethod
    def begin(table: Table, control: RunControl) -> PlainWrite:
        """Begin an attempt with the newest version."""
        control.check()
        return PlainWrite(table, table.base(), control)

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
            PreconditionError: the table was altered, or made anew; nothing was written.
            LanceGatewayError: a row violates a rule, or storage failed.
        """
        added = self._read.write_files(rows)
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
        if newest.place != self.base.place or newest.details is not None:
            msg = (
                f"table {newest.name!r} was made anew, or got a MemWAL, while the statement ran, and nothing "
                "was written: send it again"
            )
            raise PreconditionError(msg)
        return _open(newest)


def _open(base: BaseTable) -> BaseRows:
    return BaseRows(base.name, base.storage, base.dataset)
