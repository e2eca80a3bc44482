"""The base table: versions, MemWAL index, and commits."""
