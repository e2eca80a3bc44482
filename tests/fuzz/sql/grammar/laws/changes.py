"""Statements that write, and queries that compute what they must do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tests.fuzz.sql.grammar.blocks import Item, Relation, Select
from tests.fuzz.sql.grammar.kinds import Family
from tests.fuzz.sql.grammar.laws.trial import Law, Trial
from tests.fuzz.sql.grammar.tree import AbstainError, Column, Expression, Node, Reader, Text, quoted


@dataclass(frozen=True)
class Changed(Node):
    """What a query returns after a statement that writes; without a query, how many rows that changes."""

    change: Node
    then: Select | None

    def write(self, text: Text) -> None:
        if text.reader is not Reader.GATEWAY:
            raise AbstainError("writes")
        text.put(self.change)
        if self.then is not None:
            text.put("; ", self.then)


class Style(Enum):
    """How rows that meet a condition are changed."""

    DELETE = "DELETE"
    DELETE_USING = "DELETE USING"
    MERGE_DELETE = "MERGE DELETE"
    UPDATE = "UPDATE"
    UPDATE_FROM = "UPDATE FROM"
    MERGE_UPDATE = "MERGE UPDATE"
    INSERT = "INSERT"

    @property
    def deletes(self) -> bool:
        """Whether rows go."""
        return self in (Style.DELETE, Style.DELETE_USING, Style.MERGE_DELETE)


@dataclass(frozen=True)
class Writing(Node):
    """A statement that changes the rows of a relation which meet a condition.

    Attributes:
        columns: All of the relation.
        key: Those that identify a row.
        changed: The one that gets a new value.
    """

    style: Style
    source: Relation
    columns: tuple[Column, ...]
    key: tuple[Column, ...]
    condition: Expression
    changed: Column
    value: Expression

    def write(self, text: Text) -> None:
        assignment = (quoted(self.changed.name), " = ", self.value)
        keys = Select(
            items=tuple(Item(one, f"k{number}") for number, one in enumerate(self.key)),
            source=self.source,
            where=self.condition,
        )
        others = ("(", keys, ") AS chosen")
        match self.style:
            case Style.DELETE:
                text.put("DELETE FROM ", self.source, " WHERE ", self.condition)
            case Style.DELETE_USING:
                text.put("DELETE FROM ", self.source, " USING ", *others, " WHERE ", *self._same_key())
            case Style.UPDATE:
                text.put("UPDATE ", self.source, " SET ", *assignment, " WHERE ", self.condition)
            case Style.UPDATE_FROM:
                text.put("UPDATE ", self.source, " SET ", *assignment, " FROM ", *others, " WHERE ")
                text.put(*self._same_key())
            case Style.INSERT:
                names = ", ".join(quoted(one.name) for one in self.columns)
                rows = Select(items=self._items(self.value), source=self.source, where=self.condition)
                text.put("INSERT INTO ", quoted(self.source.name), f" ({names}) ", rows)
            case Style.MERGE_DELETE | Style.MERGE_UPDATE:
                text.put("MERGE INTO ", self.source, " USING ", *others, " ON ", *self._same_key())
                text.put(" WHEN MATCHED THEN ")
                text.put(*(("DELETE",) if self.style.deletes else ("UPDATE SET ", *assignment)))

    def rows_after(self) -> Select:
        """What must be left."""
        if self.style.deletes:
            stays = Expression(Family.TRUTH, ("((", self.condition, ") IS NOT TRUE)"))
            return Select(items=self._items(self.changed), source=self.source, where=stays)
        parts = ("CASE WHEN ", self.condition, " THEN ", self.value, " ELSE ", self.changed, " END")
        return Select(items=self._items(Expression(self.changed.family, parts)), source=self.source)

    def all_rows(self) -> Select:
        """The relation."""
        return Select(items=self._items(self.changed), source=self.source)

    def count(self) -> Select:
        """How many rows are changed."""
        count = Item(Expression(Family.INTEGER, ("count(*)",)), "n")
        return Select(items=(count,), source=self.source, where=self.condition)

    def _items(self, value: Expression) -> tuple[Item, ...]:
        return tuple(Item(value if one == self.changed else one, one.name) for one in self.columns)

    def _same_key(self) -> list[str | Node]:
        parts: list[str | Node] = []
        for number, one in enumerate(self.key):
            parts += [" AND " if number else "", one, f" = chosen.k{number}"]
        return parts


@dataclass(frozen=True)
class WritingTrial(Trial):
    """What a statement leaves, or says that it has changed."""

    law: Law
    writing: Writing

    def whole(self) -> Select:
        return self.writing.count() if self.law is Law.AFFECTED else self.writing.rows_after()

    def parts(self) -> tuple[Changed, ...]:
        then = None if self.law is Law.AFFECTED else self.writing.all_rows()
        return (Changed(self.writing, then),)
