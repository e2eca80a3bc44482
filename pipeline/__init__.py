"""What keeps tables under MemWAL healthy, and what brings rows in and out of them in parallel.

Jobs are `ingesting` (rows of Spark into regions, each exactly once in effect), `merging` (the MemTable merger
of the specification), `indexing`, `snapshotting` (its MemWAL index builder) and `cleaning` (its garbage
collector). `keeping` runs them whenever their policy says so; `status` tells what waits for them. `source` is
Spark's data source `lance_gateway`. Whatever reads or writes a table raises a `LanceGatewayError` where that
fails.
"""

import memwal  # noqa: F401 - says what Lance logs, before Lance is imported
