"""Physical operators over Arrow record batches.

The names and shapes are those of the MemWAL specification:

========================  =====================================================================
`LanceScanExec`           reads one Lance dataset: the base table or a flushed generation
`MemTableScanExec`        reads the unflushed rows of one region from memory
`UnionExec`               concatenates its inputs
`DeduplicateExec`         keeps the newest version of every key, by visibility mask
`SecurityBarrierExec`     applies a policy, below all filters of a statement
`TakeLastExec`            keeps the last written row of every key within one source
`BloomFilterGuardExec`    skips its input if a key filter excludes the wanted keys
`CoalesceFirstExec`       takes each key from the first input that has it; a tombstone counts
========================  =====================================================================

A scan is ``DeduplicateExec(UnionExec(LanceScanExec...))``; a point lookup is ``CoalesceFirstExec`` over
``BloomFilterGuardExec(TakeLastExec(...))``, newest first, base table last. The operators of searches are
listed in `execnodes.search` (vectors, and all searches) and `execnodes.text` (full text).
"""

from lance_gateway.execnodes.lookups import BloomFilterGuardExec, CoalesceFirstExec, TakeLastExec
from lance_gateway.execnodes.node import (
    DeduplicateExec,
    ExecNode,
    MeasuredNode,
    Metrics,
    MetricsSet,
    ScanExec,
    SecurityBarrierExec,
    TaskContext,
    UnionExec,
)
from lance_gateway.execnodes.rows.keys import KeySet
from lance_gateway.execnodes.rows.lance_filter import RowFilter
from lance_gateway.execnodes.rows.row_mask import RowMask
from lance_gateway.execnodes.scans import LanceScanExec, MemTableScanExec, RowRange
from lance_gateway.execnodes.storage.source import LanceSource, MemTableSource, StoredColumn

__all__ = [
    "BloomFilterGuardExec",
    "CoalesceFirstExec",
    "DeduplicateExec",
    "ExecNode",
    "KeySet",
    "LanceScanExec",
    "LanceSource",
    "MeasuredNode",
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
