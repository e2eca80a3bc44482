"""Statements that write rows: each is prepared once, reads through the engine, and writes through MemWAL.

What a statement says:

- `families`: statements by their first word; WITH and EXPLAIN before them.
- `translating`: statements of other dialects.
- `statement`: tokens, clauses and parameters of a text.
- `insert_text`, `merge_text`, `set_clause`: the clauses of INSERT and MERGE, and SET.
- `constants`, `values`: literals, and rows of VALUES as columns.
- `key_conditions`: conditions that name rows by their keys.

What it reads:

- `splice`: the query that a statement reads with, made of parts of its text.
- `computing`, `reading`: expressions, and rows of the target, by such queries or by lookups.
- `lookup`: rows by their keys.
- `evaluating`, `returning`: expressions over rows in memory, such as those of RETURNING.

What it writes:

- `target`: the table, and whether the principal may write it.
- `assignment`, `casting`, `filling`: values of the table's types, whole rows.
- `stream`: many rows in parts. `collecting`: rows that must be held in memory. `telling`: errors.
- `rewriting`: the loop that reads and writes as one step.

The statements:

- `prepared`: what every statement that changes something looks like to the gateway. `cache` keeps them.
- `insert`, `conflict`: INSERT, and ON CONFLICT.
- `changing`: what UPDATE, DELETE and MERGE have in common. `update`, `delete`, `merge`, `merging`: these.
- `ingest`: bulk loads. `explaining`: EXPLAIN.
"""
