"""Typed expressions over the columns of a lake, and their text for each engine."""

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import pyarrow as pa

from tests.fuzz.typed.lake import Column
from tests.fuzz.typed.operators import OPERATORS, Operator, giving, groups_of, operands_for
from tests.fuzz.typed.types import NEAR, TYPES, Spelling, Type, exact, iterate_parts, spell

_CALL = re.compile(r"\w+\([^()]*\)")


@dataclass(frozen=True)
class Leaf:
    """A column, a part of one, a literal or a parameter.

    Attributes:
        source: Which of these; `other` is a column of another type than the one it is beside.
        type: None for literals.
        of: The column's type, where it is one or a part of one.
        value: Of a parameter.
        is_plain: Whether it is bound in the type that drivers give it, and not in that of the column.
        column: Its name.
    """

    source: str
    spelling: Spelling
    group: str
    type: Type | None = None
    of: Type | None = None
    value: Any = None
    is_plain: bool = False
    column: str = ""


@dataclass(frozen=True)
class Call:
    """An operator with its operands."""

    operator: Operator
    operands: tuple["Node", ...]

    @property
    def group(self) -> str:
        gives = self.operator.gives
        return self.operands[0].group if gives == "like" else gives


Node = Leaf | Call


@dataclass
class Rendering:
    """Collects the parameters of a statement of ours.

    Attributes:
        engine: `ours`, `postgres` or `duckdb`.
        qualifier: Before the names of columns.
    """

    engine: str = "ours"
    qualifier: str = "t."
    parameters: list[pa.Scalar] = field(default_factory=list)

    def text(self, node: Node) -> str | None:
        """Return the text of an expression; None where the engine has none that means the same."""
        if isinstance(node, Call):
            operands = [self.text(one) for one in node.operands]
            template = getattr(node.operator.spelling, self.engine)
            if template is None or None in operands:
                return None
            closed = [
                f"({text})" if text is not None and self._is_closed(one, at, text, template) else text
                for at, (one, text) in enumerate(zip(node.operands, operands, strict=True))
            ]
            return template.format(*closed)
        if node.source == "parameter" and self.engine == "ours":
            assert node.type is not None
            scalar = pa.scalar(node.value, node.type.arrow)
            self.parameters.append(as_drivers_bind(scalar) if node.is_plain else scalar)
            return f"${len(self.parameters)}"
        text = getattr(node.spelling, self.engine)
        if text is None or not node.column:
            return text
        is_held = node.of is not None and (
            self.engine == "ours"
            or (node.of.postgres is not None if self.engine == "postgres" else node.of.duckdb)
        )
        qualifier = self.qualifier if self.engine == "ours" else ""
        return text.format(f"{qualifier}{node.column}") if is_held else None

    def _is_closed(self, node: Node, at: int, text: str, template: str) -> bool:
        """Return whether an operand stands in brackets; where it need not, some do."""
        chance = crc32(text.encode()) % 8 if self.engine == "ours" else 1
        if isinstance(node, Call):
            is_call = _CALL.fullmatch(getattr(node.operator.spelling, self.engine)) is not None
            return not (is_call and chance % 2 == 0)
        return chance == 0 and re.search(rf"(^| )\{{{at}\}}( |$)", template) is not None


def as_drivers_bind(scalar: pa.Scalar) -> pa.Scalar:
    """Return a value in the type that a driver gives a number, a text or a time, if it is the same there."""
    kind, types = scalar.type, pa.types
    if types.is_integer(kind):
        plain = pa.int64()
    elif types.is_floating(kind):
        plain = pa.float64()
    elif types.is_decimal(kind) and scalar.is_valid:
        return pa.scalar(scalar.as_py())
    elif types.is_timestamp(kind):
        plain = pa.timestamp("us", kind.tz)
    elif types.is_date(kind):
        plain = pa.date32()
    elif types.is_large_string(kind) or types.is_dictionary(kind):
        plain = pa.string()
    else:
        return scalar
    with suppress(pa.ArrowInvalid):
        return scalar.cast(plain)
    return scalar


def leaves_of(node: Node) -> Iterator[Leaf]:
    """Yield the leaves from the left."""
    if isinstance(node, Leaf):
        yield node
    else:
        for one in node.operands:
            yield from leaves_of(one)


def bind(node: Node, row: dict[str, Any]) -> Node | None:
    """Return the expression with a row's values in the place of its columns; None where one has no text."""
    if isinstance(node, Call):
        operands = [bind(one, row) for one in node.operands]
        return None if None in operands else Call(node.operator, tuple(operands))  # type: ignore[arg-type]
    if not node.column:
        return node
    if node.of is not node.type or node.type is None:
        return None
    text = exact(node.type, row[node.column])
    return None if text is None else replace(node, source="literal", spelling=text, column="")


def shrunk(node: Node) -> Iterator[Node]:
    """Yield simpler expressions of the same group."""
    if isinstance(node, Leaf):
        return
    for one in node.operands:
        if one.group == node.group:
            yield one
    for index, one in enumerate(node.operands):
        for smaller in shrunk(one):
            yield Call(node.operator, (*node.operands[:index], smaller, *node.operands[index + 1 :]))
        if isinstance(one, Call):
            for leaf in leaves_of(one):
                if leaf.group == one.group:
                    yield Call(node.operator, (*node.operands[:index], leaf, *node.operands[index + 1 :]))


class Drawer:
    """Draws expressions over columns."""

    def __init__(
        self, rng: random.Random, columns: Sequence[Column], operators: Sequence[Operator] = OPERATORS
    ) -> None:
        self._rng = rng
        self._operators = operators
        self._leaves = [leaf for one in columns for leaf in iterate_leaves(one)]
        self._plain = [one for one in self._leaves if one.type is one.of]

    def pairs(self) -> list[tuple[Leaf, Operator]]:
        """Return what each operator can have as its first operand, in random order."""
        found = [
            (leaf, operator)
            for leaf in self._leaves
            for operator in self._operators
            if leaf.group in groups_of(operator.takes[0])
        ]
        self._rng.shuffle(found)
        return found

    def call(self, first: Leaf, operator: Operator, depth: int = 1) -> Call:
        """Return an operator over a leaf, perhaps within another operator."""
        rng = self._rng
        inner: Node = first
        if depth and rng.random() < 0.25:
            # What is computed of the column, in its place.
            wrapping = [one for one in giving(first.group) if first.group in operands_for(one, first.group)]
            if wrapping:
                inner = self.call(first, rng.choice(wrapping), 0)
        others = [self._taken(first, taken, depth) for taken in operator.takes[1:]]
        return Call(operator, (inner, *others))

    def _taken(self, first: Leaf, taken: str, depth: int) -> Node:
        if taken.startswith("lit:"):
            return Leaf("literal", spell(self._rng.choice(taken[4:].split("|"))), "")
        if taken == "element":
            elements = [one for one in self._leaves if one.column == first.column and one.source == "part"]
            return self._rng.choice(elements) if elements else first
        if taken == "small":
            small = [one for one in self._leaves if one.type is not None and one.type.name == "int8"]
            return self._rng.choice(small or [Leaf("literal", spell("-1"), "number")])
        return self.like(first, depth) if taken == "like" else self.operand(taken, depth)

    def like(self, first: Leaf, depth: int = 0) -> Node:
        """Return what people write beside a column: a literal, a parameter or another column."""
        rng = self._rng
        kind = first.type
        assert kind is not None
        chance = rng.random()
        if chance < 0.45 and kind.literals:
            return Leaf("literal", rng.choice(kind.literals), first.group)
        if chance < 0.6:
            made = self._parameter(kind)
            if made is not None:
                return made
        if chance < 0.75:
            near = [
                one for one in self._plain if one.group in NEAR.get(first.group, ()) and one.type is not kind
            ]
            if near:
                return replace(rng.choice(near), source="other")
        if chance < 0.82 and depth:
            return self.operand(first.group, 1)
        same = [one for one in self._leaves if one.type is kind and one != first]
        return rng.choice(same) if same else first

    def operand(self, taken: str, depth: int = 0) -> Node:
        """Return a column, a literal or a call of one of the groups."""
        rng = self._rng
        groups = groups_of(taken)
        if depth and rng.random() < 0.3:
            group = rng.choice(groups)
            makers = list(giving(group))
            firsts = [
                (one, leaf)
                for one in rng.sample(makers, min(4, len(makers)))
                for leaf in self._leaves
                if leaf.group in operands_for(one, group)
            ]
            if firsts:
                operator, leaf = rng.choice(firsts)
                return self.call(leaf, operator, 0)
        held = [one for one in self._leaves if one.group in groups]
        if held and rng.random() < 0.7:
            return rng.choice(held)
        kinds = [one for one in TYPES if one.group in groups and one.literals]
        if not kinds:
            return rng.choice(held or self._leaves)
        kind = rng.choice(kinds)
        return Leaf("literal", rng.choice(kind.literals), kind.group)

    def _parameter(self, kind: Type) -> Leaf | None:
        value = self._rng.choice(kind.values if self._rng.random() < 0.8 else kind.all_values)
        text = exact(kind, value)
        if text is None and not pa.types.is_nested(kind.arrow):
            return None
        is_plain = self._rng.random() < 0.5
        spelling = text or Spelling("", None, None)
        return Leaf("parameter", spelling, kind.group, kind, value=value, is_plain=is_plain)


def iterate_leaves(column: Column) -> Iterator[Leaf]:
    """Yield a column and its parts as operands."""
    kind = column.type
    yield Leaf("column", Spelling("{0}", "{0}", "{0}"), kind.group, kind, kind, column=column.name)
    for part, one in iterate_parts(kind):
        yield Leaf("part", part.spelling, one.group, one, kind, column=column.name)
