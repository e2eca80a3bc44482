"""What a job that brings rows in is told."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.errors import InvalidInputError

_LEAST = ("chunk_rows", "chunk_bytes", "memtable_rows", "memtable_bytes")


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Choices for one job.

    Attributes:
        order_by: columns by which the last of several rows of one key is found; they need not be the
            table's, and NULL comes first. Where they are empty or equal, any of the rows stays.
        deleted_column: a boolean column that is none of the table's: rows with true delete their key.
        flush: make generations of what was written, as the last step of each task. It spares readers the
            log, and the next writer its replay. Without it rows are as durable and as visible, and stay in
            the log until somebody else flushes: for many tiny batches.
        tasks: how many write at a time at most; None for the table's regions, or Spark's cores for a new
            table. A region is always written by one task.
        chunk_rows: of one append to the log.
        chunk_bytes: of the same.
        memtable_rows: of one generation.
        memtable_bytes: of the same.
        hold_ms: a region that another writer claimed is left to it for this long.
    """

    order_by: tuple[str, ...] = ()
    deleted_column: str | None = None
    flush: bool = True
    tasks: int | None = None
    chunk_rows: int = 25_000
    chunk_bytes: int = 16 << 20
    memtable_rows: int = 100_000
    memtable_bytes: int = 256 << 20
    hold_ms: int = 1000

    def __post_init__(self) -> None:
        for name in (*_LEAST, *(("tasks",) if self.tasks is not None else ())):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, but must be 1 or more"
                raise InvalidInputError(msg)
        if self.hold_ms < 0:
            msg = f"hold_ms is {self.hold_ms}, but must not be negative"
            raise InvalidInputError(msg)
        if self.deleted_column in self.order_by:
            msg = f"column {self.deleted_column!r} can't both order rows and delete keys"
            raise InvalidInputError(msg)
        if len(set(self.order_by)) != len(self.order_by):
            msg = f"order_by names a column twice: {', '.join(self.order_by)}"
            raise InvalidInputError(msg)

    @property
    def keeps_last(self) -> bool:
        """Whether each key is written once: else several rows of one key may follow one another."""
        return bool(self.order_by) or self.deleted_column is not None
