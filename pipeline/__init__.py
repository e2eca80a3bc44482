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

- `lake`: the tables under a root; `state`: one consistent look at a table's regions and progress.
- `runners`: where the parts of a job run; `spark` has the runner of Spark, and how to start it.
- `progress`: who is told how far a long job is; `settings`: what files, variables and flags say, and
  `reference`: which keys there are.

`cli` has one command per job.
"""

import memwal  # noqa: F401 - says what Lance logs, before Lance is imported
