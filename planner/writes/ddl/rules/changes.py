"""``ALTER TABLE ..``: constraints, defaults, NOT NULL, and lengths of texts.

A rule binds all gateways: it is committed, then every region is claimed, and then the rows are checked once
more. Whoever writes after that has claimed a region since, and looks for rules when it does (ADR 43).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lance_gateway.memwal.columns.blobs import build_plain_schema
from lance_gateway.memwal.creating import NOT_NULL
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, PreconditionError
from lance_gateway.memwal.rules import (
    COLUMN_RULES,
    CONSTRAINT,
    DEFAULT,
    IS_JSON,
    IS_UUID,
    MAX_LENGTH,
    UUID_PATTERN,
    Constraint,
    ConstraintKind,
    list_constraints,
)
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.rules.constraints import build_constraints, read_constraint
from lance_gateway.planner.writes.ddl.rules.defaults import read_default, set_default
from lance_gateway.planner.writes.ddl.rules.primary_key import AddPrimaryKey
from lance_gateway.planner.writes.ddl.statement import FindRows, Reader, check_column, commit_change
from lance_gateway.planner.writes.ddl.types import ColumnType
from lance_gateway.planner.writes.dml.reading.read_rows import format_key

logger = logging.getLogger(__name__)

Metadata: TypeAlias = Mapping[str, str | None]


@dataclass(frozen=True)
class Rule:
    """A rule that rows of a table must meet from now on.

    Attributes:
        what: description for messages, such as "add constraint 'positive'".
        commit: commits it to a `lance.LanceDataset`.
        withdraw: commits the state before; not needed if no row can violate it.
        violation: SQL condition that is true for rows that violate it; "" if none can.
        described: what a row that violates it does, for messages.
    """

    what: str
    commit: Callable[[Any], object]
    withdraw: Callable[[Any], object] | None = None
    violation: str = ""
    described: str = ""

    def apply(self, table: Table, find_rows: FindRows) -> None:
        """Commit the rule, unless a row violates it.

        Raises:
            PreconditionError: a row does; names its key.
            LanceGatewayError: the rule can't be committed, or regions can't be claimed.
        """
        self._refuse_violations(table, find_rows)
        commit_change(table, self.what, self.commit)
        if not self.violation:
            return
        try:
            if table.base().details is None:
                # Rows that came between are found now; who commits from now on notices the rule.
                self._refuse_violations(table, find_rows)
                return
            writer = table.writer()
            writer.flush()
            with writer.exclusive():
                self._refuse_violations(table, find_rows)
        except BaseException:
            self._withdraw(table)
            raise

    def _withdraw(self, table: Table) -> None:
        if self.withdraw is None:
            return
        try:
            commit_change(table, f"withdraw after a failure to {self.what}", self.withdraw)
        except LanceGatewayError as error:
            # Told beside the reason for which it is withdrawn.
            logger.error("table %r keeps a rule that rows violate (%s): %s", table.name, self.what, error)  # noqa: TRY400

    def _refuse_violations(self, table: Table, find_rows: FindRows) -> None:
        if not self.violation:
            return
        key = table.base().primary_key
        shown = ", ".join(map(quote, key)) or "1"
        sql = f"SELECT {shown} FROM {table.name.sql} WHERE {self.violation} LIMIT 1"  # noqa: S608 - quoted
        try:
            rows = find_rows(sql)
        except InvalidInputError as error:
            msg = f"can't {self.what} of table {table.name!r}, since it fails for its rows: {error}"
            raise PreconditionError(msg) from error
        if rows.num_rows:
            which = f"the row with {format_key(rows)}" if key else "a row"
            msg = (
                f"can't {self.what} of table {table.name!r}, since {which} {self.described}: change or "
                "delete such rows first"
            )
            raise PreconditionError(msg)


@dataclass(frozen=True)
class AddConstraint:
    """ADD CONSTRAINT."""

    written: Constraint

    def check(self, table: Table) -> bool:
        """Refuse a constraint that does not fit the columns, or whose name is taken."""
        self._build(table)
        return True

    def rule(self, table: Table) -> Rule:
        """Return the rule for rows."""
        constraint = self._build(table)
        checks = constraint.kind is ConstraintKind.CHECK and constraint.enforced

        def add(dataset: Any) -> None:  # noqa: ANN401 - lance types
            # Once more: another gateway may have taken the name, or dropped a column, since.
            others = list_constraints(table.name, dataset.config())
            build_constraints(
                table.name, build_plain_schema(dataset.schema), [constraint], [one.name for one in others]
            )
            dataset.update_config({constraint.key: constraint.encode()})

        return Rule(
            f"add constraint {constraint.name!r}",
            add,
            lambda dataset: dataset.delete_config_keys([constraint.key]),
            f"NOT ({constraint.expression}\n)" if checks else "",
            f"violates {constraint.definition}",
        )

    def _build(self, table: Table) -> Constraint:
        base = table.base()
        taken = [one.name for one in base.constraints]
        (constraint,) = build_constraints(table.name, base.schema, [self.written], taken)
        return constraint


@dataclass(frozen=True)
class DropConstraint:
    """DROP CONSTRAINT."""

    name: str
    if_exists: bool

    def check(self, table: Table) -> bool:
        """Refuse a name that does not exist."""
        names = [one.name for one in table.base().constraints]
        if self.name in names:
            return True
        if self.if_exists:
            return False
        listed = f"it has {', '.join(names)}" if names else "it has none"
        msg = f"table {table.name!r} has no constraint {self.name!r}: {listed}"
        raise NotFoundError(msg)

    def rule(self, table: Table) -> Rule:  # noqa: ARG002 - as the other changes
        """Return the change; rows need meet nothing."""
        return Rule(
            f"drop constraint {self.name!r}",
            lambda dataset: dataset.delete_config_keys([CONSTRAINT + self.name]),
        )


@dataclass(frozen=True)
class SetDefault:
    """ALTER COLUMN .. SET DEFAULT, or DROP DEFAULT if `expression` is NULL."""

    name: str
    expression: str

    def check(self, table: Table) -> bool:
        """Refuse an expression whose value doesn't fit the column, and columns that number their rows."""
        check_column(table.base(), self.name)
        if self.name in table.base().identities:
            msg = f"column {self.name!r} of table {table.name!r} numbers its rows: it has no other default"
            raise PreconditionError(msg)
        self._changed(table.base())
        return True

    def rule(self, table: Table) -> Rule:
        """Return the change; rows need meet nothing."""
        what = f"change the default of column {self.name!r}"
        return Rule(what, _update(self.name, self._changed(table.base())))

    def _changed(self, base: BaseTable) -> Metadata:
        field = set_default(base.declared_schema.field(self.name), self.expression)
        default = (field.metadata or {}).get(DEFAULT)
        return {DEFAULT.decode(): None if default is None else default.decode()}


@dataclass(frozen=True)
class SetNotNull:
    """ALTER COLUMN .. SET NOT NULL, or DROP NOT NULL."""

    name: str
    is_required: bool

    def check(self, table: Table) -> bool:
        """Refuse columns of the key, which are always NOT NULL."""
        base = table.base()
        check_column(base, self.name)
        if self.name in base.primary_key:
            if self.is_required:
                return False
            msg = (
                f"column {self.name!r} belongs to the primary key of table {table.name!r}: it stays NOT NULL"
            )
            raise PreconditionError(msg)
        return self.is_required != (self.name in base.not_null_columns)

    def rule(self, table: Table) -> Rule:
        """Return the rule for rows."""
        key, verb = NOT_NULL.decode(), "set" if self.is_required else "drop"
        return Rule(
            f"{verb} NOT NULL of column {self.name!r}",
            _update(self.name, {key: "true" if self.is_required else None}),
            _update(self.name, {key: _metadata(table.base(), self.name).get(key)}),
            f"{quote(self.name)} IS NULL" if self.is_required else "",
            f"has NULL in column {self.name!r}",
        )


@dataclass(frozen=True)
class SetLength:
    """ALTER COLUMN .. TYPE of a text or binary column, whose values stay as they are."""

    name: str
    column_type: ColumnType

    def check(self, table: Table) -> bool:
        """Return whether the column gets another length."""
        before = _metadata(table.base(), self.name)
        return any(before.get(key) != value for key, value in self._after().items())

    def _after(self) -> dict[str, str | None]:
        rules = self.column_type.rules
        keys = (MAX_LENGTH, IS_UUID, IS_JSON)
        return {key.decode(): rules[key].decode() if key in rules else None for key in keys}

    def rule(self, table: Table) -> Rule:
        """Return the rule for rows."""
        rules, after = self.column_type.rules, self._after()
        before, column = _metadata(table.base(), self.name), quote(self.name)
        violation = ""
        limit, old_limit = rules.get(MAX_LENGTH), before.get(MAX_LENGTH.decode())
        if limit is not None and (old_limit is None or int(old_limit) > int(limit)):
            is_binary = pa.types.is_binary(self.column_type.kind)
            # DataFusion has no length of binary values; each byte has two hexadecimal digits.
            text, most = (f"encode({column}, 'hex')", 2 * int(limit)) if is_binary else (column, int(limit))
            violation = f"character_length({text}) > {most}"
        if IS_UUID in rules and not before.get(IS_UUID.decode()):
            violation = f"NOT regexp_like({column}, '{UUID_PATTERN}')"
        if IS_JSON in rules and not before.get(IS_JSON.decode()):
            violation = f"NOT json_valid({column})"
        name = "UUID" if IS_UUID in rules else "JSON" if IS_JSON in rules else "value of that length"
        return Rule(
            f"change column {self.name!r}",
            _update(self.name, after),
            _update(self.name, {key: before.get(key) for key in after}),
            violation,
            f"has a value there that is not of type {name}",
        )


RuleChange: TypeAlias = AddConstraint | DropConstraint | SetDefault | SetNotNull
"""A change of what rows must meet; the columns stay as they are."""


def read_added_constraint(reader: Reader) -> AddConstraint | AddPrimaryKey:
    """Read ``[CONSTRAINT name] PRIMARY KEY .. | CHECK .. | UNIQUE .. | FOREIGN KEY ..`` behind ADD."""
    name = reader.name("The name of a constraint") if reader.take("CONSTRAINT") else ""
    if reader.take("PRIMARY", "KEY"):
        return AddPrimaryKey(tuple(column for column, _ in reader.read_name_list("A key column")))
    if reader.word not in ("CHECK", "UNIQUE", "FOREIGN"):
        raise reader.unexpected_error("PRIMARY KEY, CHECK, UNIQUE or FOREIGN KEY is expected")
    return AddConstraint(read_constraint(reader, name))


def read_dropped_constraint(reader: Reader) -> DropConstraint:
    """Read ``CONSTRAINT [IF EXISTS] name`` behind DROP."""
    reader.expect("CONSTRAINT")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name("The name of a constraint")
    reader.take("CASCADE") or reader.take("RESTRICT")
    return DropConstraint(name, if_exists)


def read_column_rule(reader: Reader, name: str) -> SetDefault | SetNotNull | None:
    """Read ``SET DEFAULT value | DROP DEFAULT | SET NOT NULL | DROP NOT NULL``, if it is next."""
    if reader.take("SET", "DEFAULT"):
        return SetDefault(name, read_default(reader))
    if reader.take("DROP", "DEFAULT"):
        return SetDefault(name, "NULL")
    for word in ("SET", "DROP"):
        if reader.take(word, "NOT", "NULL"):
            return SetNotNull(name, word == "SET")
    return None


def _metadata(base: BaseTable, name: str) -> dict[str, str]:
    """Return the rules in the metadata of a column."""
    stored = base.declared_schema.field(name).metadata or {}
    return {key.decode(): stored[key].decode() for key in (*COLUMN_RULES, NOT_NULL) if key in stored}


def _update(name: str, metadata: Metadata) -> Callable[[Any], object]:
    return lambda dataset: dataset.update_field_metadata({name: dict(metadata)})
