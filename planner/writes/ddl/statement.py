"""Reads, checks and executes statements that define tables, views and indexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

import pyarrow as pa

from lance_gateway.memwal.base import versions
from lance_gateway.memwal.base.table_place import keep_in_place
from lance_gateway.memwal.base.versions import Outcome
from lance_gateway.memwal.errors import (
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnsupportedError,
)
from lance_gateway.memwal.storage.table_names import CATALOG, TableName, is_temporary_schema
from lance_gateway.memwal.writing import NotOwnerError
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.unknown_names import unknown_schema_error
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.sql.forms.functions import NO_SEQUENCES
from lance_gateway.planner.sql.text.statement_reader import StatementReader
from lance_gateway.planner.sql.text.tokens import QUOTED, STRING, SqlText, tokenize
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.dml.prepared_write import PreparedWrite, WriteResult
from lance_gateway.planner.writes.dml.statement.target import check_writable, resolve_table_name

_NUMBER = "0"
_NO_COLUMNS = pa.schema([])


class Reader(StatementReader):
    """Reads statements that define tables, views and indexes.

    Args:
        text: tokens of the statement.
        schema: of names without one.
    """

    def __init__(self, text: SqlText, schema: str) -> None:
        super().__init__(text)
        self.schema = schema
        self.new_schema = str(schema)
        """Schema of what is made without one."""

    @staticmethod
    def of(sql: str, schema: str, *words: str) -> Reader:
        """Return a reader behind the first words of a statement.

        Args:
            sql: the statement.
            schema: of names without one.
            words: the first words.

        Raises:
            LanceGatewayError: the text can't be tokenized, has parameters, or begins with other words.
        """
        text = tokenize(sql)
        for index, word in enumerate(text.words):
            if word in {"?", "$"}:
                raise text.error(index, "Statements that define tables take no parameters")
        reader = Reader(text, schema)
        reader.expect(*words)
        return reader

    @property
    def next_word(self) -> str:
        """The word behind the current one."""
        return self.words[self.at + 1] if self.word else ""

    def refuse_sequence(self) -> None:
        """Refuse a statement about a sequence.

        Raises:
            UnsupportedError: it is one.
        """
        if self.is_at("SEQUENCE"):
            raise self.unsupported_error(f"{NO_SEQUENCES}")

    def choose(self, what: str, *words: str) -> str:
        """Take one of several words.

        Raises:
            InvalidInputError: another word is next; suggests a similar one.
        """
        word = next((word for word in words if self.take(word)), None)
        if word is not None:
            return word
        close = get_close_matches(self.word, words, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(words)}"
        raise self.error(f"Expected {what} ({hint})")

    def table(self, what: str = "a table", schema: str | None = None) -> TableName:
        """Take the name of a table or view, which without a schema is in one, or in that of the session.

        Raises:
            LanceGatewayError: no name is next, or the catalog does not exist.
        """
        parts = self.read_qualified_name(f"The name of {what}")
        return resolve_table_name(parts, self.schema if len(parts) > 1 else schema or self.schema)

    def new_table(self, what: str = "a table") -> TableName:
        """Take the name of a table or view that is made.

        Raises:
            LanceGatewayError: no name is next, or it has a schema, and a temporary table is made.
        """
        place = self.at
        name = self.table(what, self.new_schema)
        if is_temporary_schema(self.new_schema) and not name.is_temporary:
            self.at = place
            raise self.error("What is temporary is in no other schema: leave the schema out")
        return name

    def schema_name(self) -> str:
        """Take the name of a schema, optionally with that of the catalog.

        Raises:
            LanceGatewayError: no name is next, or the catalog does not exist.
        """
        *qualifiers, schema = self.read_qualified_name("The name of a schema")
        if qualifiers not in ([], [CATALOG]):
            msg = f"Catalog {'.'.join(qualifiers)!r} does not exist; the only one is {CATALOG!r}"
            raise NotFoundError(msg)
        return schema

    def string(self, what: str) -> str:
        """Take a string literal."""
        if self.word != STRING:
            raise self.error(f"Expected {what} in single quotes")
        self.at += 1
        return self.text.tokens[self.at - 1].text

    def number(self, what: str) -> int:
        """Take a whole number."""
        token = self.text.tokens[self.at] if self.word == _NUMBER else None
        if token is None or not token.text.isdigit():
            raise self.error(f"Expected {what}, a whole number")
        self.at += 1
        return int(token.text)

    def options(self) -> dict[str, str]:
        """Take ``(name = value, ..)``; unquoted names and values are folded to lower case."""
        self.expect("(")
        options: dict[str, str] = {}
        while not self.take(")"):
            if options:
                self.expect(",")
            place = self.at
            name = self.string("an option") if self.word == STRING else self.name("The name of an option")
            while self.take("."):
                name += "." + self.name("The name of an option")
            self.take("=")
            if name in options:
                self.at = place
                raise self.error(f"Option {name} is given twice")
            options[name] = self._read_option_value(name)
        return options

    def rest(self) -> str:
        """Take the rest of the text."""
        text = self.text.sql[self.text.start(self.at) :]
        self.at = len(self.text.tokens)
        return text

    def _read_option_value(self, name: str) -> str:
        if self.word == STRING:
            return self.string(name)
        negative = "-" if self.take("-") else ""
        if self.word == _NUMBER:
            self.at += 1
            return negative + self.text.tokens[self.at - 1].text
        if not negative and self.word and (self.word == QUOTED or self.text.is_name(self.at)):
            return self.name(name)
        raise self.error(f"Expected the value of option {name}: a text in single quotes, a number, or a word")


def check_may_create(engine: QueryPlanner, name: TableName, access: Access) -> None:
    """Check that the principal may create a table or view of a name, which may exist or not.

    Raises:
        PermissionDeniedError: the principal may not; does not reveal whether the name exists.
        PreconditionError: the gateway is read-only.
        NotFoundError: the schema does not exist.
        InvalidInputError: the name is not valid.
    """
    engine.catalog.check_name(name)
    rights = access.of(name)
    if rights is None or not access.can_write(name) or not rights.is_unrestricted:
        msg = f"user {access.user!r} may not make a table or view {name!r}: an administrator must grant it"
        raise PermissionDeniedError(msg)
    if not engine.catalog.has_schema(name.schema):
        raise unknown_schema_error(name.schema)
    check_writable(engine, name)


def check_column(base: BaseTable, column: str) -> None:
    """Check that a table has a column.

    Raises:
        NotFoundError: it has not; suggests similar names.
    """
    if column not in base.schema.names:
        close = get_close_matches(column, base.schema.names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(base.schema.names)}"
        msg = f"table {base.name!r} has no column {column!r}: {hint}"
        raise NotFoundError(msg)


def check_may_write_schema(engine: QueryPlanner, schema: str, access: Access) -> None:
    """Check that the principal may create or drop a schema, which may exist or not.

    Raises:
        PermissionDeniedError: the principal may not; does not reveal whether the schema exists.
        PreconditionError: the gateway is read-only.
    """
    if not access.covers_schema(schema, to_write=True):
        msg = (
            f"user {access.user!r} may not make or drop schema {schema!r}: an administrator must grant "
            f"writing of {schema + '.*'!r}"
        )
        raise PermissionDeniedError(msg)
    check_writable(engine, schema)


def commit_change(table: Table, what: str, change: Callable[[Any], Outcome]) -> Outcome:
    """Commit a change to the newest version of a base table, and retry it if another commit came first.

    Args:
        table: table to change.
        what: description of the change for messages, such as "add a column".
        change: takes the `lance.LanceDataset` and commits.

    Raises:
        PreconditionError: Lance refuses the change; names its reason.
        UnavailableError: another commit came first in every attempt.
    """

    def attempt() -> Outcome:
        with keep_in_place(table.storage):
            dataset = table.base().dataset
            outcome = change(dataset.checkout_version(dataset.latest_version))
        table.base()  # So the next statement sees the change, even if versions are rarely checked.
        return outcome

    return versions.commit_with_retries(f"can't {what} of table {table.name!r}", attempt)


def flush_logs(table: Table) -> Mapping[str, int]:
    """Flush the logs of all regions; return rows by region id: none of a table that has no regions.

    Raises:
        LanceGatewayError: a region was not flushed; what was acknowledged is durable in its log.
    """
    has_regions = table.base().details is not None and table.read_manifests()
    return table.writer().flush_logs() if has_regions else {}


def flush_logs_if_possible(table: Table) -> None:
    """Flush the logs of regions before upkeep, which goes on where rows can't be flushed here.

    Raises:
        UnavailableError: a region could not be had in time.
    """
    # PreconditionError: the regions have no region spec, so only their own writers can flush them.
    with suppress(NotOwnerError, PreconditionError, UnsupportedError):
        flush_logs(table)


DONE = WriteResult(-1)
"""Result of a statement that writes and returns no rows."""
Action = Callable[[RunControl | None], WriteResult]
FindRows: TypeAlias = Callable[[str], pa.Table]
"""Runs a query over the newest rows."""


@dataclass(frozen=True, eq=False)
class PreparedDefinition(PreparedWrite):
    """A checked statement that defines or maintains something.

    Attributes:
        sql: text of the statement.
        action: executes the statement.
        target: name of the table or view that it creates, changes or drops.
        schema: schema of the returned rows.
    """

    sql: str
    action: Action
    target: str = ""
    schema: pa.Schema = _NO_COLUMNS

    parameter_schema = _NO_COLUMNS

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Execute the statement once."""
        if parameters:
            msg = f"statements that define tables take no parameters, and {len(parameters)} were bound"
            raise InvalidInputError(msg)
        if control is not None:
            control.begin_writing()
        return self.action(control)

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Execute the statement once, since it has no parameters."""
        return self.execute(parameters.columns, control)
