"""What keeps tables under MemWAL healthy, and what brings rows in and out of them in parallel.

Jobs, a package each

- `ingesting`: rows of Spark into regions, each exactly once in effect.
- `merging`: flushed generations into the base table; the specification's MemTable merger.
- `indexing`: indexes of the base table built and kept up to date, small files put together.
- `snapshotting`: regions remembered in the base table; the specification's MemWAL index builder.
- `cleaning`: what nobody needs any more; the specification's garbage collector.
- `status`: what waits for the others. `keeping`: all of them, whenever their policy says so.

Reading in Spark

- `source`: the data source `lance_gateway`, through the gateway's endpoints or by the executors themselves.

What jobs share

- `jobs`: the tables under a root, one consistent look at a table, runners, and progress.
- `spark`: the runner of Spark, and how to start it.

`cli` has one command per job, and their settings.
"""

import memwal  # noqa: F401 - says what Lance logs, before Lance is imported
