"""Statements that write rows: each is prepared once, reads through the planner, and writes through MemWAL.

- `statement`: tokens, clauses and parameters of a text, its target, and the queries that it reads with.
- `values`: literals, VALUES, SET, defaults and casts, as columns of the table's types.
- `reading`: rows of the target by queries or by keys, and expressions over rows in memory.
- `prepared_write`: what prepared statements have in common; reading and writing as one step, with retries.
- `insert` with `on_conflict`, `update` (DELETE too), `merge`, `ingest`: the statements. `explain`: of them.
"""
