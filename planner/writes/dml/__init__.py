"""Statements that write rows: each is prepared once, reads through the planner, and writes through MemWAL.

- `families`: statements by their first word; WITH and EXPLAIN before them.
- `statement`: tokens, clauses and parameters of a text, its target, and the query that it reads with.
- `values`: literals, SET, defaults and casts, as columns of the table's types.
- `reading`: rows of the target by queries or by keys, and expressions over rows in memory.
- `writing`: what statements that read and write have in common, retries, streams and RETURNING.
- `insert`, `update`, `delete`, `merge`, `ingest`: the statements.
- `explain`: EXPLAIN of them. `write_cache` keeps prepared statements.
"""
