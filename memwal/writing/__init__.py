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

from lance_gateway.memwal.writing.base_rows import (
    BaseChange,
    BaseRows,
    commit_base_change,
    commit_moved_rows,
    discard_files,
    group_by_fragment,
)
from lance_gateway.memwal.writing.changes import (
    Changes,
    FencedError,
    NotOwnerError,
    OutcomeUnknownError,
    PartlyWrittenError,
    WriteReceipt,
)
from lance_gateway.memwal.writing.exclusive import ExclusiveRegions
from lance_gateway.memwal.writing.observing import RegionStats, WriteObserver
from lance_gateway.memwal.writing.options import Forwarder, OwnershipPolicy, UnreachableError, WriteOptions
from lance_gateway.memwal.writing.region.abandoned import (
    HEARTBEAT_SECONDS,
    flush_abandoned,
    forget_signs,
    is_abandoned,
)
from lance_gateway.memwal.writing.region.claim import OwnTail
from lance_gateway.memwal.writing.table.open_table import OpenTable
from lance_gateway.memwal.writing.table_writer import TableWriter

__all__ = [
    "HEARTBEAT_SECONDS",
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
