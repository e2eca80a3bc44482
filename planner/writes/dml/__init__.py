"""Statements that write rows: each is prepared once, reads through the planner, and writes through MemWAL.

- `statement`: tokens, clauses and parameters of the text, the target, and the queries that it reads with.
- `values`: literals, VALUES, SET, defaults and casts, as columns of the table's types.
- `reading`: reads rows of the target by queries or by keys, and evaluates expressions over rows in memory.
- `writing_step`: the step that reads and writes while it holds the regions, with retries.
- `prepared_write`: base classes of prepared statements.
- `insert`, `merging` (MERGE, ON CONFLICT), `update` (also DELETE), `ingest`, and `explain` for all of them.
- `restore`: writes back what differs from a former state.
"""
