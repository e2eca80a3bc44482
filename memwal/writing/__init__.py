"""Writing through MemWAL: rows find their region, and one Lance `ShardWriter` per region makes them durable.

Faces

- `table_writer`: all regions of one table; `exclusive`: those that a statement holds to read and then write.
- `changes`: what is written, and the errors that a writer can meet; `outcomes`: what became of it, by region.
- `options`: durability, ownership, queues, sizes of MemTables.
- `observing`, `counting`: what writers tell about themselves.

From rows to regions

- `opened`: a table as writers know it, and whether it still is the same one.
- `rows`: rows in the form in which writers take them; `splitting`: changes of each region.
- `regions`: which region a row belongs to, and how regions are created; `bucket_reading`: by which hash.

One region

- `region_writer`: its queue, its claim, and what becomes of an append that failed.
- `requests`: requests that wait, and who of them does the work.
- `claim`: a Lance writer, its epoch and its place in the log; `atomic`: changes that don't fit one append.
- `ownership`, `owners`: when a region may be claimed, and who says that it owns it.
- `forwarding`, `sending`: rows for regions of others.
- `log`: what the log tells; `own_tail`: what this process holds of it.
"""

from memwal.writing.changes import (
    Changes,
    FencedError,
    NotOwnerError,
    OutcomeUnknownError,
    PartlyWrittenError,
    WriteReceipt,
)
from memwal.writing.exclusive import ExclusiveRegions
from memwal.writing.forwarding import Forwarder, UnreachableError
from memwal.writing.observing import RegionStats, WriteObserver
from memwal.writing.opened import OpenTable
from memwal.writing.options import OwnershipPolicy, WriteOptions
from memwal.writing.own_tail import OwnTail
from memwal.writing.table_writer import TableWriter

__all__ = [
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
]
