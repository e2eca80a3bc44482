"""Statements that change what a table is: CREATE, ALTER, DROP, indexes, and its upkeep.

- `statement`: read a statement word by word; what is prepared, rights, and the commit of a change.
- `types`, `options`: of columns, tables and indexes, as they stand in statements.
- `create` decides by the second word: `create_table`, views and `indexes`. `drop` likewise.
- `alter`: ALTER TABLE. `maintenance`: OPTIMIZE and ANALYZE.
"""
