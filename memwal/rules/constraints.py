"""Named constraints of a table, one entry each in its configuration.

    lance-gateway.constraint.qty_positive   {"type": "CHECK", "expression": "qty > 0", "columns": ["qty"]}

Not in the schema's metadata: Lance takes log entries for those of another table where that differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lance_gateway.memwal.errors import CorruptDataError
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TableName

CONSTRAINT: Final = "lance-gateway.constraint."
"""Prefix of the keys in a table's configuration; the constraint's name follows."""


class ConstraintKind(Enum):
    """Kind of a constraint, by its name in SQL."""

    CHECK = "CHECK"
    UNIQUE = "UNIQUE"
    FOREIGN_KEY = "FOREIGN KEY"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a table.

    Attributes:
        name: unique in its table.
        kind: what it demands.
        columns: columns of UNIQUE and FOREIGN KEY in their order; columns that a CHECK reads.
        expression: condition of a CHECK, in DataFusion's SQL; true or NULL for every row.
        enforced: whether writers refuse rows that violate it.
        referenced_table: table of a FOREIGN KEY, as the text of a `TableName`.
        referenced_columns: columns of that table; () for its primary key.
    """

    name: str
    kind: ConstraintKind
    columns: tuple[str, ...] = ()
    expression: str = ""
    enforced: bool = True
    referenced_table: str = ""
    referenced_columns: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Key in the table's configuration."""
        return CONSTRAINT + self.name

    @property
    def definition(self) -> str:
        """The constraint in SQL, behind its name."""
        names = ", ".join(map(_quote, self.columns))
        ending = "" if self.enforced else " NOT ENFORCED"
        if self.kind is ConstraintKind.CHECK:
            return f"CHECK ({self.expression}){ending}"
        if self.kind is ConstraintKind.UNIQUE:
            return f"UNIQUE ({names}){ending}"
        others = f" ({', '.join(map(_quote, self.referenced_columns))})" if self.referenced_columns else ""
        return f"FOREIGN KEY ({names}) REFERENCES {_quote_table(self.referenced_table)}{others}{ending}"

    def encode(self) -> str:
        """Return the value in the table's configuration."""
        fields = {
            "type": self.kind.value,
            "columns": list(self.columns),
            "expression": self.expression,
            "enforced": self.enforced,
            "referenced_table": self.referenced_table,
            "referenced_columns": list(self.referenced_columns),
        }
        return json.dumps({name: value for name, value in fields.items() if value or name == "enforced"})


def _quote(name: str) -> str:
    return name if name.isidentifier() and name == name.lower() else '"' + name.replace('"', '""') + '"'


def _quote_table(text: str) -> str:
    name = TableName.parse(text)
    parts = (name.table,) if name.schema == MAIN_SCHEMA else (name.schema, name.table)
    return ".".join(map(_quote, parts))


def list_constraints(table: str, config: Mapping[str, str]) -> tuple[Constraint, ...]:
    """Return the constraints in a table's configuration, by name.

    Raises:
        CorruptDataError: one can't be read, or is of a kind that is not known here.
    """
    keys = sorted(key for key in config if key.startswith(CONSTRAINT))
    return tuple(_decode(table, key.removeprefix(CONSTRAINT), config[key]) for key in keys)


def _decode(table: str, name: str, text: str) -> Constraint:
    try:
        fields = json.loads(text)
        return Constraint(
            name,
            ConstraintKind(fields["type"]),
            tuple(fields.get("columns", ())),
            fields.get("expression", ""),
            bool(fields["enforced"]),
            fields.get("referenced_table", ""),
            tuple(fields.get("referenced_columns", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = (
            f"table {table!r}: constraint {name!r} of its configuration is {text!r}, which can't be read "
            f"({error}): write it with the gateway that made it, or delete {CONSTRAINT + name!r}"
        )
        raise CorruptDataError(msg) from error


def find_constraint_on(constraints: Iterable[Constraint], column: str) -> Constraint | None:
    """Return a constraint that names a column; None if there is none."""
    return next((one for one in constraints if column in one.columns), None)
