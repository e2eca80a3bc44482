"""Jobs that maintain tables with a MemWAL, and parallel reads and writes by Spark.

Jobs are `ingesting` (writes rows of Spark to regions, exactly once in effect), `merging` (the MemTable merger
of the specification), `indexing`, `snapshotting` (its MemWAL index builder, and backups) and `cleaning` (its
garbage collector). `keeping` runs them by their policies; `status` reports the work that waits for them.
`source` is Spark's data source `lance_gateway`. All raise `LanceGatewayError` if reading or writing a table
fails.
"""

import lance_gateway.memwal  # noqa: F401 - says what Lance logs, before Lance is imported
