"""Statements that change what a table is: CREATE, ALTER, DROP, indexes, and its upkeep.

- `families`: which first word leads where; `reader` reads a statement word by word, `prepared` is one that
  was checked.
- `create_statement`, `create_table`, `columns`, `types`, `options`: CREATE TABLE as text; `create` makes a
  table, for ingestion too.
- `views`, `drop`: CREATE VIEW, and DROP of everything.
- `alter`, `schema_changes`, `enable`: columns that come and go, and a MemWAL for a table that has none.
- `indexes`, `index_types`: CREATE INDEX and DROP INDEX.
- `optimize`, `analyze`: upkeep.
- `committing`: commits that others may come before; `rights`: who may make what; `regions`: region specs as
  text.
"""
