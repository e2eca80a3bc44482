"""Writing through MemWAL: rows find their region, and one Lance `ShardWriter` per region makes them durable.

- `changes`: what is written, what became of it, and the errors that a writer can meet.
- `options`: how a process writes: durability, ownership, queues, sizes of MemTables.
- `regions`: which region a row belongs to, and how regions are created.
- `region_writer`: the writer of one region: claim, group commit, fencing, what is not flushed yet.
- `table_writer`: all regions of one table.
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
from memwal.writing.options import OwnershipPolicy, WriteOptions
from memwal.writing.own_tail import OwnTail
from memwal.writing.table_writer import TableWriter

__all__ = [
    "Changes",
    "ExclusiveRegions",
    "FencedError",
    "Forwarder",
    "NotOwnerError",
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
