"""Random queries over relations with five columns of the same kinds, most of which ask for some of the rows.

`tests/planner/data/drawn_queries.txt` tells what they are made of.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from tests.planner.titled import read_titled

KINDS = ("int", "int", "text", "date", "float")
Names: TypeAlias = tuple[str, ...]
"""Of columns, one of each of `KINDS`; none if a join hides them."""
NAMES: tuple[Names, ...] = (("id", "n", "s", "d", "x"), ("n", "k", "t", '"D"', "x"))
VALUES = {
    "int": ("0", "1", "2", "3"),
    "text": ("'a'", "'ab'", "'b'", "'B'"),
    "date": ("DATE '2025-12-31'", "DATE '2026-01-01'", "DATE '2026-02-01'"),
    "float": ("0.0", "-0.0", "1.5", "3"),
}
_TYPES = {"int": pa.int64(), "text": pa.string(), "date": pa.date32(), "float": pa.float64()}
Tables: TypeAlias = Mapping[str, Names]
_T = TypeVar("_T")


class Source(NamedTuple):
    alias: str
    names: Names


def _read_grammar() -> dict[str, dict[str, float]]:
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for case in read_titled("drawn_queries.txt"):
        lines = [line.partition(" ") for line in case.parts[0].splitlines()]
        found[case.title] = {text: float(weight) for weight, _, text in lines}
    return found


_GRAMMAR = _read_grammar()


class Queries:
    """Draws a query.

    Args:
        seed: all of it follows from it.
        relations: tables and views.
    """

    def __init__(self, seed: int, relations: Tables) -> None:
        self._rng = random.Random(seed)
        self._relations = dict(self._rng.sample(sorted(relations.items()), 4))  # which occur repeatedly
        self._left = self._one(1, 1, 2, 2, 3, 4, 5)
        self._parameter_chance = self._one(0.0, 0.0, 0.0, 0.0, 0.0, 0.4)
        self.parameters: list[pa.Scalar] = []
        # What is above a query is plain, so that most of its rows matter to the answer.
        self.sql = self._query({}, "plain")[0]

    def _may(self, chance: float) -> bool:
        return self._rng.random() < chance

    def _grow(self, chance: float) -> bool:  # by a query or a relation, of which there are few
        found = self._left > 0 and self._may(chance)
        self._left -= found
        return found

    def _one(self, *choices: _T) -> _T:
        return self._rng.choice(choices)

    def _pick(self, *titles: str) -> str:
        texts = {text: weight for title in titles for text, weight in _GRAMMAR[title].items()}
        return self._rng.choices(list(texts), list(texts.values()))[0]

    def _write(
        self, title: str, tables: Tables, sources: Sequence[Source], kind: str = "", column: str = ""
    ) -> str:
        """An expression of a kind, or about one; now and then with queries in it."""
        kind = kind or self._one(*KINDS)
        text = self._pick(title, f"{title} {kind}")
        while "SELECT" in text and not self._grow(0.8):
            text = self._pick(title)
        column = column or self._column(sources, kind)
        parts: dict[str, Callable[[], str]] = {
            "c": lambda: column,
            "o": lambda: self._column(sources, kind),
            "any": lambda: self._column(sources, self._one(*KINDS)),
            "k": lambda: self._one(*VALUES[kind]),
            "v": lambda: self._value(kind),
            "p": lambda: self._write("condition", tables, sources),
            "from": lambda: self._from(tables, sources)[0],
            "output": lambda: self._write_from("output", kind, tables, ()),
            "aggregate": lambda: self._write_from("aggregate", kind, tables, sources),
        }
        return re.sub(r"\{(\w+)\}", lambda found: parts[found[1]](), text)

    def _write_from(self, title: str, kind: str, tables: Tables, outer: Sequence[Source]) -> str:
        from_, sources = self._from(tables, outer)
        return f"{self._write(title, tables, sources, kind)} {from_}"

    def _column(self, sources: Sequence[Source], kind: str, beside: Sequence[Source] = ()) -> str:
        """A column of some relations, beside others; a constant if they are hidden."""
        pairs = [(one, name) for one in sources for name in one.names if KINDS[one.names.index(name)] == kind]
        if not pairs:
            return self._one(*VALUES[kind])
        source, name = self._one(*pairs)
        is_clear = sum(name in one.names for one in (*sources, *beside)) == 1
        return name if is_clear and self._may(0.4) else f"{source.alias}.{name}"

    def _value(self, kind: str) -> str:
        """A constant or a parameter."""
        text = self._one(*VALUES[kind])
        if not self._may(self._parameter_chance):
            return text
        plain = None if self._may(0.15) else text.partition("'")[2].strip("'") or text
        self.parameters.append(pa.scalar(plain, pa.string()).cast(self._one(_TYPES[kind], pa.string())))
        return f"${len(self.parameters)}"

    def _query(self, tables: Tables, shape: str = "query") -> tuple[str, Names]:
        with_ = ""
        if self._grow(0.3):
            with_, tables = self._with(tables)
        text = self._pick(shape)
        if text == "set":
            sql, names = self._query(tables, "side")
            for _ in range(self._one(1, 1, 1, 2)):
                right = self._query(tables, "side")[0]
                sql += f" {self._pick('operator')} {self._one(right, f'({right})')}"
            return with_ + sql + self._one("", " ORDER BY 1, 2, 3, 4, 5 LIMIT 3"), names
        from_, sources = self._from(tables)
        starred = self._one(*(one for one in sources if one.names))
        names = starred.names if "{star}" in text else self._one(*NAMES)
        count = self._one(1, 2, 3) if "{keys}" in text else 5
        items = [self._write("output", tables, sources, kind) for kind in KINDS[:count]]
        if "{windows}" in text:
            items[self._one(0, 1)] = self._write("window", tables, sources, "int")
        at, keys = self._one(*range(count)), ", ".join(items)
        items += [self._write("aggregate", tables, sources, kind) for kind in KINDS[count:]]
        named = ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
        grouping = self._pick("grouping").format(keys=keys, numbers=", ".join("123"[:count]))
        condition = self._write("condition", tables, (), KINDS[at], f"({items[at]})")
        parts = {"items": named, "windows": named, "from": from_, "keys": grouping, "key": condition}
        parts |= {"star": self._one(*["*"] * (len(sources) == 1), f"{starred.alias}.*"), "first": items[0]}
        return with_ + text.format_map({**parts, "any": self._column(sources, self._one(*KINDS))}), names

    def _with(self, tables: Tables) -> tuple[str, Tables]:
        name, text = self._one("c", "C", "e"), self._pick("with")
        query, names = self._query(tables)
        renamed = NAMES[names == NAMES[0]] if "{names}" in text else names
        relation, sources = self._relation(tables, ())
        number = self._column(sources, "int", (Source("q", names),))
        parts = {"name": name, "names": ", ".join(renamed), "query": query, "first": names[0]}
        parts |= {"others": ", ".join(names[1:]), "relation": relation, "int": number}
        return f"{text.format_map(parts)} ", {**tables, name.lower(): renamed}

    def _from(self, tables: Tables, outer: Sequence[Source] = ()) -> tuple[str, tuple[Source, ...]]:
        """FROM, and WHERE as a rule."""
        sql, sources = self._join(tables, outer)
        conditions = []
        while self._may(0.15 if conditions else 0.7):
            conditions.append(self._write("condition", tables, sources))
        if outer and self._may(0.7):
            kind = self._one(*KINDS)
            conditions.append(f"{self._column(sources, kind, outer)} = {self._column(outer, kind, sources)}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"FROM {sql}{where}", sources

    def _relation(self, tables: Tables, used: Sequence[Source]) -> tuple[str, tuple[Source, ...]]:
        alias = self._one(*sorted({*"abfghijlop"} - {one.alias for one in used}))
        if self._grow(0.35):
            sql, names = self._query(tables)
            renamed = self._one(names, names, names, names, NAMES[names == NAMES[0]])
            heading = alias if renamed == names else f"{alias}({', '.join(renamed)})"
            return f"({sql}) AS {heading}", (Source(alias, renamed),)
        known = {**self._relations, **tables}
        name = self._one(*(tables if tables and self._may(0.85) else known))
        return f"{name} AS {alias}", (Source(alias, known[name]),)

    def _join(self, tables: Tables, used: Sequence[Source]) -> tuple[str, tuple[Source, ...]]:
        """Relations that may be joined, with aliases that are not used."""
        sql, ours = self._relation(tables, used)
        while len(ours) + len(used) < 6 and self._grow(0.5):
            text = self._pick("join")
            draw = self._join if self._may(0.2) else self._relation
            right, theirs = draw(tables, (*used, *ours))
            right = f"({right})" if len(theirs) > 1 else right
            kind, operator = self._one(*KINDS), self._one(*[" = "] * 5, " < ")
            on = operator.join((self._column(ours, kind, theirs), self._column(theirs, kind, ours)))
            condition = self._write("condition", tables, (*ours, *theirs))
            sql = text.format_map({"left": sql, "right": right, "on": on, "p": condition})
            if "SEMI" in text or "ANTI" in text:
                shown, hidden = (theirs, ours) if "RIGHT" in text else (ours, theirs)
                ours, theirs = shown, tuple(Source(one.alias, ()) for one in hidden)
            ours += theirs
        return sql, ours
