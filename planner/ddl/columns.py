"""A column as a statement defines it: ``name type [NOT NULL] [PRIMARY KEY] [COMMENT 'text']``."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from planner.ddl.reader import Reader
from planner.ddl.types import read_type

COMMENT = b"comment"
"""In the metadata of a column or schema: what people say of it."""
_REFUSED = {
    "DEFAULT": "Defaults are not offered: give the value when you insert",
    "GENERATED": "Generated columns are not offered: make a view that computes them",
    "AS": "Computed columns are not offered: make a view that computes them",
    "UNIQUE": "UNIQUE is not offered; a PRIMARY KEY keeps the newest row of each key",
    "REFERENCES": "Foreign keys are not offered",
    "CHECK": "CHECK is not offered",
    "COLLATE": "Collations are not offered: text compares by its bytes",
}


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column.

    Attributes:
        field: name, type, whether NULL is taken, and a comment.
        is_key: whether it was said to be the primary key.
    """

    field: pa.Field
    is_key: bool


def read_column(reader: Reader) -> ColumnDefinition:
    """Take the definition of a column.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    name = reader.name("the name of a column")
    kind = read_type(reader)
    nullable, is_key, comment = True, False, None
    while reader.word not in ("", ",", ")"):
        if reader.accept("NOT", "NULL"):
            nullable = False
        elif reader.accept("PRIMARY", "KEY"):
            nullable, is_key = False, True
        elif reader.accept("COMMENT"):
            comment = reader.string("a comment")
        elif reader.word in _REFUSED:
            raise reader.refused(f"{_REFUSED[reader.word]}; it stands")
        elif not reader.accept("NULL"):
            raise reader.error(
                f"Expected NOT NULL, PRIMARY KEY, COMMENT, ',' or ')', not {reader.shown()}: it stands"
            )
    metadata = None if comment is None else {COMMENT: comment.encode()}
    return ColumnDefinition(pa.field(name, kind, nullable, metadata), is_key)
