"""Statements that change something: rows (`dml`) and tables (`ddl`).

`base_writes`: commits of rows to base tables, where there is no MemWAL, or no key.
"""
