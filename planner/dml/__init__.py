"""Statements that write rows: each is prepared once, reads through the engine, and writes through MemWAL.

- `prepared`: what every statement that changes something looks like to the gateway.
- `insert`: INSERT of values or of a query's rows.
"""
