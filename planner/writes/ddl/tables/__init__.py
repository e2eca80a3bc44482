"""What happens to a table or view as a whole.

- `making`: tables are made, and replaced.
- `renaming`: ALTER TABLE and ALTER VIEW RENAME TO.
- `enable_mem_wal`: ALTER TABLE SET (memwal = true).
"""
