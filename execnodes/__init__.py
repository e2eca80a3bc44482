"""Physical operators over Arrow record batches.

The names and shapes are those of the MemWAL specification:

========================  =====================================================================
`LanceScanExec`           reads one Lance dataset: the base table or a flushed generation
`MemTableScanExec`        reads rows that are in memory: the unflushed rows of one region
`UnionExec`               its inputs one after another
`DeduplicateExec`         keeps the newest version of every key, by visibility mask
`SecurityBarrierExec`     what a policy leaves of rows, below everything that a statement says of them
`TakeLastExec`            the last written row of every key within one source
`BloomFilterGuardExec`    skips its input when a key filter rules the wanted keys out
`CoalesceFirstExec`       the first input that knows a key answers for it; a tombstone is an answer
========================  =====================================================================

A scan is ``DeduplicateExec(UnionExec(LanceScanExec...))``; a point lookup is ``CoalesceFirstExec`` over
``BloomFilterGuardExec(TakeLastExec(...))``, newest first, base table last. Searches are trees of the
operators of `execnodes.search` (vectors, and what all searches share) and `execnodes.text` (full text), which
have catalogues of their own.
"""

from execnodes.lookups import BloomFilterGuardExec, CoalesceFirstExec, TakeLastExec
from execnodes.node import (
    DeduplicateExec,
    ExecNode,
    Metrics,
    MetricsSet,
    ScanExec,
    SecurityBarrierExec,
    TaskContext,
    UnionExec,
)
from execnodes.rows.keys import KeySet
from execnodes.rows.lance_filter import RowFilter
from execnodes.rows.row_mask import RowMask
from execnodes.scans import LanceScanExec, MemTableScanExec, RowRange
from execnodes.storage.source import LanceSource, MemTableSource, StoredColumn

__all__ = [
    "BloomFilterGuardExec",
    "CoalesceFirstExec",
    "DeduplicateExec",
    "ExecNode",
    "KeySet",
    "LanceScanExec",
    "LanceSource",
    "MemTableScanExec",
    "MemTableSource",
    "Metrics",
    "MetricsSet",
    "RowFilter",
    "RowMask",
    "RowRange",
    "ScanExec",
    "SecurityBarrierExec",
    "StoredColumn",
    "TakeLastExec",
    "TaskContext",
    "UnionExec",
]
