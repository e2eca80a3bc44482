"""A statement that defines something: read word by word, checked, and ready to be executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from memwal.base import versions
from memwal.base.versions import Outcome
from memwal.errors import InvalidInputError, PermissionDeniedError, PreconditionError
from planner.access.rights import Access
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.sql.statement_reader import StatementReader
from planner.sql.tokens import QUOTED, STRING, tokenize
from planner.tables.state.table import Table
from planner.writes.dml.prepared_write import PreparedWrite, WriteResult
from planner.writes.dml.statement.target import named_table

_NUMBER = "0"
_NO_COLUMNS = pa.schema([])


class Reader(StatementReader):
    """Reads the statements of this folder."""

    @staticmethod
    def of(sql: str, *words: str) -> Reader:
        """Behind the words with which a statement begins.

        Raises:
            LanceGatewayError: it can't be taken apart, has parameters, or begins with something else.
        """
        text = tokenize(sql)
        for index, word in enumerate(text.words):
            if word in {"?", "$"}:
                raise text.error(index, "Statements that define tables take no parameters; one stands")
        reader = Reader(text)
        reader.expect(*words)
        return reader

    @property
    def next_word(self) -> str:
        """The word behind the one that stands here."""
        return self.words[self.at + 1] if self.word else ""

    def choose(self, what: str, *words: str) -> str:
        """Move past one of some words.

        Raises:
            InvalidInputError: something else is next; names the one that comes close.
        """
        found = next((word for word in words if self.take(word)), None)
        if found is not None:
            return found
        close = get_close_matches(self.word, words, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(words)}"
        raise self.error(f"Expected {what} ({hint})")

    def table(self, what: str = "a table") -> str:
        """Take the name of a table or view, with catalog and schema or without.

        Raises:
            LanceGatewayError: something else is next, or there is no such schema.
        """
        return named_table(self.qualified_name(f"The name of {what}"))

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
        """Take ``(name = value, ..)``; names and values that are words are folded to lower case."""
        self.expect("(")
        found: dict[str, str] = {}
        while not self.take(")"):
            if found:
                self.expect(",")
            place = self.at
            name = self.string("an option") if self.word == STRING else self.name("The name of an option")
            while self.take("."):
                name += "." + self.name("The name of an option")
            self.take("=")
            if name in found:
                self.at = place
                raise self.error(f"Option {name} is given twice: it stands")
            found[name] = self._value(name)
        return found

    def rest(self) -> str:
        """Take everything that is left, as it stands."""
        text = self.text.sql[self.text.start(self.at) :]
        self.at = len(self.text.tokens)
        return text

    def _value(self, name: str) -> str:
        if self.word == STRING:
            return self.string(name)
        negative = "-" if self.take("-") else ""
        if self.word == _NUMBER:
            self.at += 1
            return negative + self.text.tokens[self.at - 1].text
        if not negative and self.word and (self.word == QUOTED or self.text.is_name(self.at)):
            return self.name(name)
        raise self.error(f"Expected the value of option {name}: a text in single quotes, a number, or a word")


def check_may_create(engine: QueryPlanner, name: str, access: Access) -> None:
    """The one check of all that make a table or a view, whether or not there is one.

    Raises:
        PermissionDeniedError: the principal may not; nothing is told of what exists.
        PreconditionError: the gateway only reads.
        InvalidInputError: nothing can have that name.
    """
    engine.catalog.check_name(name)
    rights = access.of(name)
    if rights is None or not access.may_write(name) or not rights.is_unrestricted:
        msg = f"user {access.user!r} may not make a table or view {name!r}: an administrator must grant it"
        raise PermissionDeniedError(msg)
    check_writable(engine, name)


def check_writable(engine: QueryPlanner, name: str) -> None:
    """Refuse changes where the gateway only reads.

    Raises:
        PreconditionError: it does.
    """
    if engine.catalog.writing is None:
        msg = f"{name!r} can't be made, changed or dropped: this gateway was started read-only"
        raise PreconditionError(msg)


def committed(table: Table, what: str, change: Callable[[Any], Outcome]) -> Outcome:
    """Apply a change to the newest version of a base table, again if a merge or another change came first.

    Args:
        table: that is changed.
        what: is done, for messages: "add a column".
        change: takes the `lance.LanceDataset` and commits.

    Raises:
        PreconditionError: Lance refuses it; says why.
        UnavailableError: others were first, time after time.
    """

    def attempt() -> Outcome:
        dataset = table.base().dataset
        outcome = change(dataset.checkout_version(dataset.latest_version))
        table.base()  # This gateway's next statement knows, also where versions are looked for rarely.
        return outcome

    return versions.commit_with_retries(f"can't {what} of table {table.name!r}", attempt)


DONE = WriteResult(-1)
"""Of a statement that writes no rows and returns none."""
Action = Callable[[RunControl | None], WriteResult]


@dataclass(frozen=True, eq=False)
class PreparedDefinition(PreparedWrite):
    """A statement that defines something, checked.

    Attributes:
        sql: as given.
        action: what it does, each time it is executed.
        target: name of the table or view that it makes, changes or drops.
        schema: of the rows that it returns.
    """

    sql: str
    action: Action
    target: str = ""
    schema: pa.Schema = _NO_COLUMNS

    parameter_schema = _NO_COLUMNS

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Do it once."""
        if parameters:
            msg = f"statements that define tables take no parameters, and {len(parameters)} were bound"
            raise InvalidInputError(msg)
        return self.action(control)

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Do it once: there are no parameters that could differ."""
        return self.execute(parameters.columns, control)
