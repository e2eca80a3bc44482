"""Definitions of columns: ``name type [NOT NULL] [DEFAULT value] [CHECK (..)] [COMMENT 'text'] ..``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.rules import IDENTITY, Constraint, Identity
from lance_gateway.planner.writes.ddl.rules.constraints import read_constraint
from lance_gateway.planner.writes.ddl.rules.defaults import read_default, set_default
from lance_gateway.planner.writes.ddl.statement import Reader
from lance_gateway.planner.writes.ddl.types import read_column_type

COMMENT: Final = b"comment"
"""Metadata key of the comment on a column or schema."""
_COUNTED: Final = (pa.int16(), pa.int32(), pa.int64())
_COMPUTED: Final = "Computed columns are not supported: make a view that computes them"
_REFUSED_CLAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AS": _COMPUTED,
        "COLLATE": "Collations are not supported: text compares by its bytes",
    }
)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """The definition of a column.

    Attributes:
        field: name, type, nullability, and comment, default and rules of its type in the metadata.
        is_key: whether the column is declared PRIMARY KEY.
        constraints: constraints in the definition.
    """

    field: pa.Field
    is_key: bool
    constraints: tuple[Constraint, ...] = ()


def read_column(reader: Reader) -> ColumnDefinition:
    """Read the definition of a column.

    Raises:
        LanceGatewayError: the definition is invalid.
    """
    name = reader.name("The name of a column")
    column_type = read_column_type(reader)
    nullable, is_key, default = True, False, None
    metadata, constraints = dict(column_type.rules), []
    while reader.word not in ("", ",", ")"):
        constraint_name = reader.name("The name of a constraint") if reader.take("CONSTRAINT") else ""
        if reader.take("NOT", "NULL"):
            nullable = False
        elif reader.take("PRIMARY", "KEY"):
            nullable, is_key = False, True
        elif reader.take("COMMENT"):
            metadata[COMMENT] = reader.string("a comment").encode()
        elif reader.take("DEFAULT"):
            default = read_default(reader)
        elif reader.word in ("CHECK", "UNIQUE", "REFERENCES"):
            constraints.append(read_constraint(reader, constraint_name, name))
        elif (identity := _read_identity(reader)) is not None:
            metadata[IDENTITY] = identity.encode()
        elif not reader.take("NULL"):
            raise _build_clause_error(reader)
    if IDENTITY in metadata:
        _check_counted(reader, name, column_type.kind, default)
        nullable = False
    field = pa.field(name, column_type.kind, nullable, metadata or None)
    if default is not None:
        field = set_default(field, default)
    return ColumnDefinition(field, is_key, tuple(constraints))


def _build_clause_error(reader: Reader) -> LanceGatewayError:
    if reader.is_at("GENERATED") or reader.word in _REFUSED_CLAUSES:
        return reader.unsupported_error(f"{_REFUSED_CLAUSES.get(reader.word, _COMPUTED)}")
    return reader.error(
        f"Expected NOT NULL, PRIMARY KEY, DEFAULT, CHECK, COMMENT, ',' or ')', not {reader.shown}"
    )


def _check_counted(reader: Reader, name: str, kind: pa.DataType, default: str | None) -> None:
    if kind not in _COUNTED:
        raise reader.error(f"Column {name!r} numbers its rows, so it is SMALLINT, INT or BIGINT")
    if default is not None:
        raise reader.error(f"Column {name!r} numbers its rows, and has a DEFAULT: leave one out")


def _read_identity(reader: Reader) -> Identity | None:
    """Read ``GENERATED .. AS IDENTITY``, ``IDENTITY (1, 1)`` or AUTO_INCREMENT, if it is next."""
    if reader.take("GENERATED", "ALWAYS", "AS", "IDENTITY"):
        return _read_numbering(reader, always=True)
    if reader.take("GENERATED", "BY", "DEFAULT", "AS", "IDENTITY") or reader.take("IDENTITY"):
        return _read_numbering(reader, always=False)
    if reader.take("AUTO_INCREMENT") or reader.take("AUTOINCREMENT"):
        return Identity(always=False)
    return None


def _read_numbering(reader: Reader, *, always: bool) -> Identity:
    """Read ``(START WITH 1 INCREMENT BY 1)`` or ``(1, 1)``."""
    start, increment = 1, 1
    if not reader.take("("):
        return Identity(always)
    if reader.word == "0":
        start = reader.number("the first number")
        increment = reader.number("an increment") if reader.take(",") else increment
    while not reader.take(")"):
        if reader.take("START"):
            reader.take("WITH")
            start = reader.number("the first number")
        elif reader.take("INCREMENT"):
            reader.take("BY")
            increment = reader.number("an increment")
        elif reader.take("CACHE"):
            reader.number("a number of numbers")  # Each process takes as many as it needs.
        elif not reader.take("NO", "CYCLE"):
            raise reader.unsupported_error("START WITH, INCREMENT BY, CACHE and NO CYCLE are supported")
    if not increment:
        raise reader.error("An increment is 1 or more, not 0")
    return Identity(always, start, increment)
