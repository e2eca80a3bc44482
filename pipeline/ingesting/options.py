"""Options and reports of ingest jobs."""

from dataclasses import dataclass

from lance_gateway.memwal.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class RegionReport:
    """The result of a task for a region.

    Attributes:
        region_id: UUID in its usual text form.
        rows: that were written.
        deleted: keys that were deleted.
        epoch: of the newest claim with which it was written.
    """

    region_id: str
    rows: int
    deleted: int
    epoch: int


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The result of an ingest job.

    Attributes:
        table: its name.
        job: under which its batches are known.
        batch: which of them this was.
        regions: ascending by id.
        is_skipped: whether the batch was complete before, so that nothing was written.
    """

    table: str
    job: str
    batch: int
    regions: tuple[RegionReport, ...] = ()
    is_skipped: bool = False

    @property
    def rows(self) -> int:
        """Rows that were written."""
        return sum(region.rows for region in self.regions)

    @property
    def deleted(self) -> int:
        """Keys that were deleted."""
        return sum(region.deleted for region in self.regions)


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
                raise InvalidInputError(f"{name} is {getattr(self, name)}, but must be 1 or more")
        if self.hold_ms < 0:
            raise InvalidInputError(f"hold_ms is {self.hold_ms}, but must not be negative")
        if self.deleted_column in self.order_by:
            raise InvalidInputError(f"column {self.deleted_column!r} can't both order rows and delete keys")
        if len(set(self.order_by)) != len(self.order_by):
            raise InvalidInputError(f"order_by names a column twice: {', '.join(self.order_by)}")

    @property
    def keeps_last(self) -> bool:
        """Whether each key is written once: else several rows of one key may follow one another."""
        return bool(self.order_by) or self.deleted_column is not None
