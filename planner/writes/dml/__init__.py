"""Statements that write rows: each is prepared once, reads through the planner, and writes through MemWAL.

- `statement`: tokens, clauses and parameters of the text, the target, and the queries that it reads with.
- `values`: literals, VALUES, SET, defaults and casts, as columns of the table's types.
- `reading`: reads rows of the target by queries or by keys, and evaluates expressions over rows in memory.
- `prepared_write`: base classes of prepared statements; the step that reads and writes, with retries.
- `insert` with `on_conflict`, `update` (also DELETE), `merge`, `ingest`, and `explain` for all of them.
- `restore`: writes back what differs from a former state.
"""
