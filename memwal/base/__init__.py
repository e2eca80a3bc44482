"""The base table: its versions, its MemWAL index, and commits to it."""
