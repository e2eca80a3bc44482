"""What was read of a root last, in a note for those who open its tables when they start."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.planner.tables.shared.files import SharedFiles
from lance_gateway.planner.tables.shared.names import digest

MAX_TABLES = 64
MAX_COLUMNS = 64
"""Of a table."""
_SCHEMA = pa.schema([("table", pa.string()), ("columns", pa.list_(pa.string()))])


@dataclass(frozen=True, slots=True)
class _ReadsNote:
    """Name of the note of a root. What it says is a hint: the tables may be others by now."""

    root: str


@dataclass(frozen=True, slots=True)
class RecentTable:
    """A table that was read.

    Attributes:
        name: of the table.
        columns: that were scanned, the last ones first; None if rows were only searched, or looked up.
    """

    name: str
    columns: tuple[str, ...] | None = None


class RecentReads:
    """The tables of a root that were read last. Thread-safe.

    Args:
        root: its URI.
        files: where the note lies; None where there is none.
    """

    def __init__(self, root: str, files: SharedFiles | None) -> None:
        self._name = digest(_ReadsNote(root))
        self._files = files
        self._lock = threading.Lock()
        self._tables: dict[str, RecentTable] = {}
        """The last one at the end."""
        self._last: RecentTable | None = None
        for one in reversed(self._load()):
            self._tables[one.name] = one
        self._noted = self.list_tables()

    def note(self, table: str, columns: Iterable[str] | None) -> None:
        """Note that a table was read, and which columns of it were scanned, if any were."""
        read = RecentTable(table, None if columns is None else tuple(columns))
        if read == self._last:  # One client may look up thousands of keys a second.
            return
        with self._lock:
            self._last = read
            before = self._tables.pop(table, None)
            known = None if before is None else before.columns
            if read.columns is not None or known is not None:
                every = dict.fromkeys((*(read.columns or ()), *(known or ())))
                read = RecentTable(table, tuple(every)[:MAX_COLUMNS])
            self._tables[table] = read
            if len(self._tables) > MAX_TABLES:
                del self._tables[next(iter(self._tables))]

    def list_tables(self) -> tuple[RecentTable, ...]:
        """Return the tables, the last one first."""
        with self._lock:
            return tuple(reversed(self._tables.values()))

    def save(self) -> None:
        """Write the note, if it has changed."""
        tables = self.list_tables()
        if self._files is None or tables == self._noted:
            return
        rows = [{"table": one.name, "columns": one.columns} for one in tables]
        self._files.write_note(self._name, pa.RecordBatch.from_pylist(rows, _SCHEMA))
        self._noted = tables

    def _load(self) -> list[RecentTable]:
        found = None if self._files is None else self._files.read_note(self._name)
        if found is None or found.schema != _SCHEMA:
            return []
        return [
            RecentTable(row["table"], None if row["columns"] is None else tuple(row["columns"]))
            for row in found.to_pylist()
        ]
