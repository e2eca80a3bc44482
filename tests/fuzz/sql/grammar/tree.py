"""Trees of statements, what they print, and their smaller versions.

A node is a frozen dataclass. Its text is written for one of three readers: the gateway, plain DataFusion and
DuckDB, which differ in spelling and in whether parameters are bound or stand as literals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Self

import pyarrow as pa

from tests.fuzz.sql.grammar.kinds import CANONICAL, Family, Kind, duck_literal, literal


class Reader(Enum):
    """For whom a statement is written."""

    GATEWAY = "gateway"
    DATAFUSION = "datafusion"
    DUCKDB = "duckdb"


class AbstainError(Exception):
    """A statement has something in it whose meaning is not agreed with this reader."""


class Text:
    """Text in the making, with the values of its parameters."""

    __slots__ = ("_marks", "parameters", "reader", "tokens")

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.tokens: list[str] = []
        self.parameters: list[pa.Scalar] = []
        self._marks: dict[int, str] = {}

    def bound(self, number: int, value: pa.Scalar) -> str:
        """The mark of a parameter, whose value is taken when it first stands there."""
        if number not in self._marks:
            self.parameters.append(value)
            self._marks[number] = f"${len(self.parameters)}"
        return self._marks[number]

    def put(self, *parts: str | Node) -> None:
        """Append text and nodes."""
        for part in parts:
            if isinstance(part, str):
                self.tokens.append(part)
            else:
                part.write(self)

    def put_list(self, nodes: tuple[Node, ...], separator: str = ", ") -> None:
        """Append nodes with something between them."""
        for number, node in enumerate(nodes):
            if number:
                self.tokens.append(separator)
            node.write(self)


@dataclass(frozen=True)
class Node:
    """Part of a statement."""

    def write(self, text: Text) -> None:
        """Append what this prints."""
        raise NotImplementedError

    def own_variants(self) -> Iterator[Node]:
        """Smaller nodes that may stand in this one's place, the smallest first."""
        yield from ()

    def variants(self) -> Iterator[Self]:
        """Versions of this tree in which one node is smaller."""
        yield from self.own_variants()  # type: ignore[misc]
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Node):
                for smaller in value.variants():
                    yield replace(self, **{item.name: smaller})
            elif isinstance(value, tuple):
                for place, one in enumerate(value):
                    if isinstance(one, Node):
                        for smaller in one.variants():
                            yield replace(self, **{item.name: (*value[:place], smaller, *value[place + 1 :])})

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for item in fields(self):
            value = getattr(self, item.name)
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, Node):
                    yield from one.walk()


def mapped(tree: Node, change: Callable[[Node], Node | None]) -> Node:
    """The tree with other nodes in the place of those for which `change` gives one."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        if not isinstance(value, Node):
            return value
        other = change(value)
        if other is not None:
            return other
        parts = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
        return replace(value, **{name: changed(part) for name, part in parts.items()})

    return changed(tree)  # type: ignore[no-any-return]


def with_values(tree: Node, draw: Callable[[Kind], Any]) -> Node:
    """The tree with other values of its parameters."""
    drawn: dict[int, Any] = {}

    def changed(one: Node) -> Node | None:
        if not isinstance(one, Parameter):
            return None
        return replace(one, value=None if one.value is None else drawn.setdefault(one.number, draw(one.kind)))

    return mapped(tree, changed)


def render(node: Node, reader: Reader) -> tuple[str, tuple[pa.Scalar, ...]]:
    """The text of a tree for a reader, and the values of its parameters.

    Raises:
        AbstainError: the reader means something else by it.
    """
    text = Text(reader)
    node.write(text)
    return "".join(text.tokens), tuple(text.parameters)


@dataclass(frozen=True)
class Spelled(Node):
    """Words as they stand, which DuckDB may spell otherwise; None where it has none that mean the same.

    Attributes:
        native: the words.
        duck: those of DuckDB; empty for the same.
        is_own: whether DataFusion by itself does not know them.
    """

    native: str
    duck: str | None = ""
    is_own: bool = False

    def write(self, text: Text) -> None:
        if text.reader is not Reader.DUCKDB or self.duck == "":
            text.put(self.native)
        elif self.duck is None:
            raise AbstainError(self.native)
        else:
            text.put(self.duck)


@dataclass(frozen=True)
class Expression(Node):
    """A scalar expression: text with nodes in it.

    Attributes:
        inexact: Whether the last digits depend on the order in which rows arrive.
    """

    family: Family
    parts: tuple[str | Node, ...]
    inexact: bool = False

    def write(self, text: Text) -> None:
        text.put(*self.parts)

    def own_variants(self) -> Iterator[Node]:
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            return
        if self.family in CANONICAL:
            yield Literal(self.family, CANONICAL[self.family].values[0])
            if self.family is Family.TRUTH:
                yield Literal(self.family, value=False)
        for part in self.parts:
            if isinstance(part, Node):
                yield from (
                    one for one in part.walk() if isinstance(one, Expression) and one.family is self.family
                )


@dataclass(frozen=True)
class Standard(Expression):
    """A form of the standard that the gateway takes; the others are asked for what it means."""

    meaning: tuple[str | Node, ...] = ()

    def write(self, text: Text) -> None:
        text.put(*(self.parts if text.reader is Reader.GATEWAY else self.meaning))

    def variants(self) -> Iterator[Self]:
        # A smaller part would change the form, and not its meaning.
        yield from self.own_variants()  # type: ignore[misc]


@dataclass(frozen=True)
class Column(Expression):
    """A column of a relation in scope."""

    parts: tuple[str | Node, ...] = field(default=(), init=False)
    inexact: bool = field(default=False, init=False)
    kind: Kind
    relation: str
    name: str

    def write(self, text: Text) -> None:
        if self.kind.family is Family.OPAQUE and text.reader is Reader.DUCKDB:
            raise AbstainError(self.name)
        text.put(f"{self.relation}.{quoted(self.name)}" if self.relation else quoted(self.name))

    def own_variants(self) -> Iterator[Node]:
        yield from ()


@dataclass(frozen=True)
class Literal(Expression):
    """A constant."""

    parts: tuple[str | Node, ...] = field(default=(), init=False)
    inexact: bool = field(default=False, init=False)
    value: Any

    def write(self, text: Text) -> None:
        spelled = duck_literal if text.reader is Reader.DUCKDB else literal
        text.put(spelled(self.value, self.family))

    def own_variants(self) -> Iterator[Node]:
        yield from ()


@dataclass(frozen=True)
class Parameter(Expression):
    """A value that is bound where the gateway reads, and a literal of its type elsewhere.

    Attributes:
        number: In the statement, however often the parameter stands there.
    """

    parts: tuple[str | Node, ...] = field(default=(), init=False)
    inexact: bool = field(default=False, init=False)
    kind: Kind
    value: Any
    number: int
    is_cast: bool = False

    def write(self, text: Text) -> None:
        if text.reader is Reader.GATEWAY:
            mark = text.bound(self.number, pa.scalar(self.value, self.kind.arrow))
        else:
            spelled = duck_literal if text.reader is Reader.DUCKDB else literal
            mark = spelled(self.value, self.family)
        text.put(f"CAST({mark} AS {self.kind.sql})" if self.is_cast or self.value is None else mark)

    def own_variants(self) -> Iterator[Node]:
        yield Literal(self.family, self.value)


def quoted(name: str) -> str:
    """A name as SQL takes it as it stands."""
    return name if name.isidentifier() and name == name.lower() else '"' + name.replace('"', '""') + '"'
