"""What keeps tables under MemWAL healthy, and what brings rows in and out of them in parallel.

What all jobs share

- `lake`: the tables under a root; `state`: one consistent look at a table's regions and progress.
- `runners`: where the parts of a job run: in threads of this process, or on Spark.
- `progress`: who is told how far a long job is.

Jobs, a package each

- `merging`: flushed generations into the base table, the specification's MemTable merger.

`cli` has one command per job.
"""
