"""Statements that define tables, views, indexes and schemas, and that maintain tables.

- `statement`: the reader of these statements, prepared definitions, checks of rights, and commits.
- `types`, `options`: types of columns; options of tables and indexes.
- `create` dispatches by the second word to `create_table`, views, schemas and `indexes`; `drop` likewise.
- `tables`: what happens to a table as a whole.
- `versions`: tags, branches and clones.
- `alter`: ALTER TABLE. `maintenance`: OPTIMIZE, FLUSH and ANALYZE.
"""
