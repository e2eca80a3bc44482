"""Statements that change what a table is: CREATE, ALTER, DROP, indexes, and its upkeep.

- `families`: statements by their first word; `create` decides by the second.
- `statement`: read a statement word by word: types, options, rights, and the commit of what it changes.
- `tables`: CREATE, ALTER, DROP and ANALYZE TABLE.
- `indexes`: CREATE INDEX, DROP INDEX and OPTIMIZE.
- `views`: CREATE VIEW and DROP VIEW.
"""
