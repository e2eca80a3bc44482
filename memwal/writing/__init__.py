"""Write rows to their regions; one Lance `ShardWriter` per region makes them durable.

- `table_writer`: all regions of one table; `exclusive`: regions that a statement holds to read and then
  write.
- `changes`: changes, receipts, and the errors of writes.
- `forwarding`: rows for the owners of their regions.
- `base_rows`: rows of tables without MemWAL, in one commit of the base table.
- `options`: durability, ownership, queues, sizes of MemTables. `observing`: counters and events of writers.
- `table`: a table as writers use it, and the region of each row.
- `region`: the writer of one region: claim, queue, log, and owner; logs whose owners are gone.
"""

from memwal.writing.base_rows import (
    BaseChange,
    BaseRows,
    commit_base_change,
    commit_moved_rows,
    discard_files,
    group_by_fragment,
)
from memwal.writing.changes import (
    Changes,
    FencedError,
    NotOwnerError,
    OutcomeUnknownError,
    PartlyWrittenError,
    WriteReceipt,
)
from memwal.writing.exclusive import ExclusiveRegions
from memwal.writing.observing import RegionStats, WriteObserver
from memwal.writing.options import Forwarder, OwnershipPolicy, UnreachableError, WriteOptions
from memwal.writing.region.abandoned import SIGN_SECONDS, flush_abandoned, forget_signs, is_abandoned
from memwal.writing.region.claim import OwnTail
from memwal.writing.table.open_table import OpenTable
from memwal.writing.table_writer import TableWriter

__all__ = [
    "SIGN_SECONDS",
    "BaseChange",
    "BaseRows",
    "Changes",
    "ExclusiveRegions",
    "FencedError",
    "Forwarder",
    "NotOwnerError",
    "OpenTable",
    "OutcomeUnknownError",
    "OwnTail",
    "OwnershipPolicy",
    "PartlyWrittenError",
    "RegionStats",
    "TableWriter",
    "UnreachableError",
    "WriteObserver",
    "WriteOptions",
    "WriteReceipt",
    "commit_base_change",
    "commit_moved_rows",
    "discard_files",
    "flush_abandoned",
    "forget_signs",
    "group_by_fragment",
    "is_abandoned",
]
