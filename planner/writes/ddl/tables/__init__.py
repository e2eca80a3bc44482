"""What happens to a table or view as a whole.

- `making`: tables are made, and replaced.
- `renaming`: ALTER TABLE and ALTER VIEW RENAME TO.
- `comments`: COMMENT ON.
- `enable_mem_wal`: ALTER TABLE SET (memwal = true).
- `key_indexes`: the indexes of the key, and ALTER TABLE SET (key_index = ..).
"""
