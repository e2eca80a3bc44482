"""Definitions of columns: ``name type [NOT NULL] [DEFAULT value] [CHECK (..)] [COMMENT 'text'] ..``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from memwal.rules import Constraint
from planner.writes.ddl.rules.constraints import read_constraint
from planner.writes.ddl.rules.defaults import read_default, set_default
from planner.writes.ddl.statement import Reader
from planner.writes.ddl.types import read_column_type

COMMENT: Final = b"comment"
"""Metadata key of the comment on a column or schema."""
_NO_COUNTERS: Final = (
    "Numbers that count up are not given, since no counter is shared by all gateways: use UUID DEFAULT "
    "uuid(), or give the values"
)
_REFUSED_CLAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AS": "Computed columns are not offered: make a view that computes them",
        "AUTOINCREMENT": _NO_COUNTERS,
        "AUTO_INCREMENT": _NO_COUNTERS,
        "IDENTITY": _NO_COUNTERS,
        "COLLATE": "Collations are not offered: text compares by its bytes",
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
        elif reader.is_at("GENERATED") or reader.word in _REFUSED_CLAUSES:
            raise reader.unsupported_error(f"{_explain_refusal(reader)}; it stands")
        elif not reader.take("NULL"):
            raise reader.error(
                "Expected NOT NULL, PRIMARY KEY, DEFAULT, CHECK, COMMENT, ',' or ')', not "
                f"{reader.shown}: it stands"
            )
    field = pa.field(name, column_type.kind, nullable, metadata or None)
    if default is not None:
        field = set_default(field, default)
    return ColumnDefinition(field, is_key, tuple(constraints))


def _explain_refusal(reader: Reader) -> str:
    if reader.word != "GENERATED":
        return _REFUSED_CLAUSES[reader.word]
    behind = reader.words[reader.at : reader.at + 6]
    return _NO_COUNTERS if "IDENTITY" in behind else _REFUSED_CLAUSES["AS"]
