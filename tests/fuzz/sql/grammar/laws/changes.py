"""Statements that write, and queries that compute what they must do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from tests.fuzz.sql.grammar.blocks import Derived, Item, Relation, Select
from tests.fuzz.sql.grammar.kinds import Family
from tests.fuzz.sql.grammar.laws.trial import Law, Trial
from tests.fuzz.sql.grammar.tree import AbstainError, Column, Expression, Node, Reader, Text, mapped, quoted


@dataclass(frozen=True)
class Changed(Node):
    """What a query returns after a statement that writes; without one, what that statement returns."""

    change: Node
    then: Node | None

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
    INSERT_CONFLICT = "INSERT ON CONFLICT"
    MERGE_SOME = "MERGE UPDATE AND"
    MERGE_OTHERS = "MERGE DELETE NOT MATCHED BY SOURCE"

    @property
    def deletes(self) -> bool:
        """Whether rows go."""
        return "DELETE" in self.value


@dataclass(frozen=True)
class Writing(Node):
    """A statement that changes the rows of a relation which meet a condition.

    Attributes:
        columns: All of the relation.
        key: Those that identify a row.
        changed: The one that gets a new value.
        returns: Whether the changed rows are returned.
    """

    style: Style
    source: Relation
    columns: tuple[Column, ...]
    key: tuple[Column, ...]
    condition: Expression
    changed: Column
    value: Expression
    returns: bool = False

    def write(self, text: Text) -> None:
        self._write_change(text)
        if self.returns:
            text.put(" RETURNING ", ", ".join(quoted(one.name) for one in self.columns))

    def _write_change(self, text: Text) -> None:
        assignment = (quoted(self.changed.name), " = ", self.value)
        others = ("(", self._select_keys(self.condition), ") AS chosen")
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
            case Style.INSERT | Style.INSERT_CONFLICT:
                names = ", ".join(quoted(one.name) for one in self.columns)
                rows = Select(items=self._items(self.value), source=self.source, where=self.condition)
                text.put("INSERT INTO ", quoted(self.source.name), f" ({names}) ", rows)
                if self.style is Style.INSERT_CONFLICT:
                    key, name = ", ".join(quoted(one.name) for one in self.key), quoted(self.changed.name)
                    text.put(f" ON CONFLICT ({key}) DO UPDATE SET {name} = excluded.{name}")
            case Style.MERGE_DELETE | Style.MERGE_UPDATE:
                text.put("MERGE INTO ", self.source, " USING ", *others, " ON ", *self._same_key())
                text.put(" WHEN MATCHED THEN ")
                text.put(*(("DELETE",) if self.style.deletes else ("UPDATE SET ", *assignment)))
            case Style.MERGE_SOME:
                text.put("MERGE INTO ", self.source, " USING (", self._select_keys(None), ") AS chosen ON ")
                text.put(*self._same_key(), " WHEN MATCHED AND ", self.condition)
                text.put(" THEN UPDATE SET ", *assignment)
            case Style.MERGE_OTHERS:
                text.put("MERGE INTO ", self.source, " USING (", self._select_keys(self._denied()))
                text.put(") AS chosen ON ", *self._same_key())
                text.put(" WHEN NOT MATCHED BY SOURCE THEN DELETE")

    def rows_after(self) -> Select:
        """What must be left."""
        if self.style.deletes:
            return replace(self.all_rows(), where=self._denied())
        parts = ("CASE WHEN ", self.condition, " THEN ", self.value, " ELSE ", self.changed, " END")
        return Select(items=self._items(Expression(self.changed.family, parts)), source=self.source)

    def all_rows(self) -> Select:
        """The relation."""
        return Select(items=self._items(self.changed), source=self.source)

    def changed_rows(self) -> Select:
        """The rows that are written, or go."""
        value = self.changed if self.style.deletes else self.value
        return Select(items=self._items(value), source=self.source, where=self.condition)

    def count(self) -> Select:
        """How many rows are changed."""
        count = Item(Expression(Family.INTEGER, ("count(*)",)), "n")
        return Select(items=(count,), source=self.source, where=self.condition)

    def _denied(self) -> Expression:
        return Expression(Family.TRUTH, ("((", self.condition, ") IS NOT TRUE)"))

    def _select_keys(self, where: Expression | None) -> Select:
        items = tuple(Item(one, f"k{number}") for number, one in enumerate(self.key))
        return Select(items=items, source=self.source, where=where)

    def _items(self, value: Expression) -> tuple[Item, ...]:
        return tuple(Item(value if one == self.changed else one, one.name) for one in self.columns)

    def _same_key(self) -> list[str | Node]:
        parts: list[str | Node] = []
        for number, one in enumerate(self.key):
            parts += [" AND " if number else "", one, f" = chosen.k{number}"]
        return parts


@dataclass(frozen=True)
class WritingTrial(Trial):
    """What a statement leaves, returns, or says that it has changed.

    Attributes:
        query: That reads the relation afterwards.
    """

    law: Law
    writing: Writing
    query: Node

    def whole(self) -> Node:
        match self.law:
            case Law.SEEN:
                return mapped(self.query, self._find_derived)
            case Law.AFFECTED:
                return self.writing.count()
            case Law.RETURNED:
                return self.writing.changed_rows()
        return self.writing.rows_after()

    def parts(self) -> tuple[Changed, ...]:
        if self.law is Law.CHANGED:
            return (Changed(self.writing, self.writing.all_rows()),)
        if self.law is Law.SEEN:
            return (Changed(self.writing, self.query),)
        return (Changed(replace(self.writing, returns=self.law is Law.RETURNED), None),)

    def _find_derived(self, one: Node) -> Node | None:
        """The rows that are left, in the place of the relation."""
        if isinstance(one, Relation) and one.name == self.writing.source.name:
            return Derived(self.writing.rows_after(), one.alias)
        return None
