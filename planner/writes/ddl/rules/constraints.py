"""CHECK, UNIQUE and FOREIGN KEY of a column or a table.

[CONSTRAINT name] CHECK (condition) [NOT ENFORCED]
[CONSTRAINT name] UNIQUE [(columns)] NOT ENFORCED
[CONSTRAINT name] FOREIGN KEY (columns) REFERENCES table [(columns)] NOT ENFORCED
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceGatewayError,
    UnsupportedError,
)
from lance_gateway.memwal.rules import Constraint, ConstraintKind
from lance_gateway.memwal.rules.expressions import evaluate_expressions, parse_expression
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.bridge.row_expressions import rewrite_expression
from lance_gateway.planner.writes.ddl.statement import Reader

_NOT_ENFORCED: Final[Mapping[ConstraintKind, str]] = MappingProxyType(
    {
        ConstraintKind.UNIQUE: (
            "UNIQUE is not enforced, since another gateway may write the same value at the same moment: make "
            "the columns the PRIMARY KEY, which keeps the newest row of each, or write NOT ENFORCED"
        ),
        ConstraintKind.FOREIGN_KEY: (
            "Foreign keys are not enforced: find rows without a partner by a query, or write NOT ENFORCED"
        ),
    }
)
_SUFFIX: Final[Mapping[ConstraintKind, str]] = MappingProxyType(
    {ConstraintKind.CHECK: "check", ConstraintKind.UNIQUE: "key", ConstraintKind.FOREIGN_KEY: "fkey"}
)


def is_constraint(reader: Reader) -> bool:
    """Whether a constraint of a table is next, behind its name."""
    return reader.word in ("CHECK", "UNIQUE", "FOREIGN") and reader.next_word in ("(", "KEY")


def read_constraint(reader: Reader, name: str = "", column: str | None = None) -> Constraint:
    """Read a constraint.

    Args:
        reader: stands at CHECK, UNIQUE, FOREIGN or REFERENCES.
        name: name that was read before; "" if the table gives it one.
        column: column in whose definition it stands; None for a constraint of the table.

    Returns:
        The constraint as it is written; of a CHECK, `columns` is the column in whose definition it stands.

    Raises:
        InvalidInputError: the constraint has a syntax error.
        UnsupportedError: it can't be enforced, and isn't said to be NOT ENFORCED.
    """
    begin = reader.at
    own = () if column is None else (column,)
    if reader.take("CHECK"):
        text = _read_condition(reader)
        return Constraint(name, ConstraintKind.CHECK, own, text, enforced=_read_enforced(reader))
    if reader.take("UNIQUE"):
        columns = own or _read_names(reader)
        if not _read_enforced(reader):
            return Constraint(name, ConstraintKind.UNIQUE, columns, enforced=False)
        raise _not_enforced_error(reader, begin, ConstraintKind.UNIQUE)
    if column is None:
        reader.expect("FOREIGN", "KEY")
    columns = own or _read_names(reader)
    reader.expect("REFERENCES")
    table = reader.table()
    others = _read_names(reader) if reader.word == "(" else ()
    if others and len(others) != len(columns):
        reader.at = begin
        raise reader.error(f"{len(columns)} column(s) can't refer to {len(others)}")
    _read_actions(reader)
    if _read_enforced(reader):
        raise _not_enforced_error(reader, begin, ConstraintKind.FOREIGN_KEY)
    return Constraint(
        name,
        ConstraintKind.FOREIGN_KEY,
        columns,
        enforced=False,
        referenced_table=table,
        referenced_columns=others,
    )


def _not_enforced_error(reader: Reader, begin: int, kind: ConstraintKind) -> LanceGatewayError:
    reader.at = begin
    return reader.unsupported_error(f"{_NOT_ENFORCED[kind]}")


def _read_names(reader: Reader) -> tuple[str, ...]:
    return tuple(name for name, _ in reader.read_name_list("A column"))


def _read_condition(reader: Reader) -> str:
    if reader.word != "(":
        raise reader.unexpected_error("A condition in brackets is expected behind CHECK")
    first, closing = reader.at + 1, reader.closing()
    if first == closing:
        raise reader.error("CHECK has no condition")
    reader.at = closing + 1
    return reader.text.sql[reader.text.start(first) : reader.text.end(closing - 1)]


def _read_enforced(reader: Reader) -> bool:
    if reader.take("NOT", "ENFORCED"):
        return False
    reader.take("ENFORCED")
    return True


def _read_actions(reader: Reader) -> None:
    """Read ON DELETE and ON UPDATE, of which only those that do nothing are taken."""
    while reader.take("ON"):
        event = reader.choose("what happens", "DELETE", "UPDATE")
        if not reader.take("NO", "ACTION") and not reader.take("RESTRICT"):
            raise reader.unsupported_error(
                f"Nothing is done ON {event}: leave it out, and do it in a statement of its own"
            )


def build_constraints(
    table: str, schema: pa.Schema, written: Iterable[Constraint], taken: Collection[str] = ()
) -> tuple[Constraint, ...]:
    """Check constraints against the columns of their table, and name those without a name.

    Args:
        table: name of the table.
        schema: its columns.
        written: the constraints, as `read_constraint` returns them.
        taken: names of other constraints of the table.

    Raises:
        AlreadyExistsError: a name is taken.
        InvalidInputError: a column does not exist, or a condition is invalid.
        UnsupportedError: a condition does not follow from its row alone.
    """
    names = set(taken)
    constraints = []
    for one in written:
        for column in one.columns:
            if column not in schema.names:
                msg = f"column {column!r} of a {one.kind.value} is none of {', '.join(schema.names)}"
                raise InvalidInputError(msg)
        name = one.name or _find_free_name(table, one, names)
        if name in names:
            msg = f"table {table!r} has a constraint {name!r} already: choose another name"
            raise AlreadyExistsError(msg)
        names.add(name)
        named = replace(one, name=name)
        constraints.append(_build_check(named, schema) if one.kind is ConstraintKind.CHECK else named)
    return tuple(constraints)


def _find_free_name(table: str, constraint: Constraint, taken: Collection[str]) -> str:
    stem = "_".join([TableName.parse(table).table, *constraint.columns, _SUFFIX[constraint.kind]])
    name, number = stem, 0
    while name in taken:
        number += 1
        name = f"{stem}{number}"
    return name


def _build_check(written: Constraint, schema: pa.Schema) -> Constraint:
    what = f"constraint {written.name!r}, CHECK ({written.expression})"
    try:
        expression = rewrite_expression(written.expression, schema)
        parsed = parse_expression(expression, schema)
        if parsed.unstable:
            msg = (
                f"{what} uses {', '.join(parsed.unstable)}: whether a row meets it must follow from the row "
                "alone, at any time"
            )
            raise UnsupportedError(msg)
        (values,) = evaluate_expressions([expression], schema.empty_table())
    except InvalidInputError as error:
        msg = f"{what} can't be used: {error}"
        raise InvalidInputError(msg) from error
    if not pa.types.is_boolean(values.type):
        msg = f"{what} can't be used: it is {values.type}, and a condition is true or false"
        raise InvalidInputError(msg)
    return replace(written, columns=parsed.columns, expression=expression)
