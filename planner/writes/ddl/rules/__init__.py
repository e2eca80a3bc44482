"""Definitions of columns and constraints, and statements that change them.

- `columns`: columns with their types, defaults and constraints.
- `constraints`: CHECK, UNIQUE and FOREIGN KEY.
- `defaults`: DEFAULT.
- `primary_key`: ALTER TABLE ADD PRIMARY KEY.
- `changes`: ALTER TABLE ADD and DROP CONSTRAINT, SET and DROP DEFAULT, SET and DROP NOT NULL, lengths.
"""
