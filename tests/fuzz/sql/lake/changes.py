"""Random statements that change rows, and what each must do to the rows that are there."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from tests.fuzz.sql.grammar.expressions import Expressions, Scope
from tests.fuzz.sql.grammar.kinds import CANONICAL, Family, Kind, arrow_name, literal
from tests.fuzz.sql.grammar.tree import Column, Reader, quoted, render
from tests.fuzz.sql.judges.engines import DataFusionEngine, Refused
from tests.fuzz.sql.lake.lakes import HeldTable
from tests.fuzz.sql.lake.tables import Key
from tests.support.lake.tables import Row

# Types whose literals an INSERT takes as they stand; values of others are bound.
_SPELLED = frozenset(CANONICAL) - {Family.INSTANT, Family.CLOCK, Family.BYTES}


@dataclass(frozen=True)
class Change:
    """A statement, and what it must do.

    Attributes:
        rows: The new row of each key that it changes, None for one that it deletes.
        affected: How many rows it must say it changed.
    """

    sql: str
    rows: Mapping[Key, Row | None]
    affected: int
    parameters: tuple[pa.Scalar, ...] = ()


class Changes:
    """Draws changes of one table.

    Args:
        held: the table.
        datafusion: computes what conditions and expressions come to, over the rows as they are.
    """

    def __init__(self, rng: random.Random, held: HeldTable, datafusion: DataFusionEngine) -> None:
        self._rng = rng
        self._held = held
        self._spec = held.spec
        self._datafusion = datafusion
        self._expressions = Expressions(rng)
        self._name = quoted(held.spec.name)
        self._scope = Scope(
            tuple(Column(kind.family, kind, "", name) for name, kind in held.spec.shape.columns)
        )

    def draw(self) -> Change:
        """A change of any sort, of which DataFusion can tell what it does."""
        sorts: tuple[Callable[[], Change], ...] = (
            self._inserted, self._inserted, self._inserted_where_absent, self._updated, self._updated,
            self._deleted, self._merged,
        )  # fmt: skip
        while True:
            with suppress(Refused):  # It lacks a form.
                return self._rng.choice(sorts)()

    def _rows(self, most: int) -> list[Row]:
        keys = max(4, len(self._held.rows) + 2)
        rows = [self._spec.draw_row(self._rng, keys) for _ in range(self._rng.randint(1, most))]
        return list({self._spec.key_of(row): row for row in rows}.values())

    def _values(self, rows: Sequence[Row]) -> tuple[str, list[pa.Scalar]]:
        """The rows behind VALUES, with parameters where a type has no literal, and now and then elsewhere."""
        parameters: list[pa.Scalar] = []

        def value(row: Row, name: str, kind: Kind) -> str:
            if row[name] is not None and (kind.family not in _SPELLED or self._rng.random() < 0.2):
                parameters.append(pa.scalar(row[name], kind.arrow))
                return f"${len(parameters)}"
            return literal(row[name], kind.family)

        columns = self._spec.shape.columns
        text = ", ".join(f"({', '.join(value(row, name, kind) for name, kind in columns)})" for row in rows)
        return text, parameters

    def _inserted(self) -> Change:
        rows = self._rows(4)
        text, parameters = self._values(rows)
        names = ", ".join(quoted(name) for name, _ in self._spec.shape.columns)
        sql = f"INSERT INTO {self._name} ({names}) VALUES {text}"
        return Change(sql, {self._spec.key_of(row): row for row in rows}, len(rows), tuple(parameters))

    def _inserted_where_absent(self) -> Change:
        rows = self._rows(4)
        text, parameters = self._values(rows)
        names = ", ".join(quoted(name) for name, _ in self._spec.shape.columns)
        new = {key: row for row in rows if (key := self._spec.key_of(row)) not in self._held.rows}
        sql = f"INSERT INTO {self._name} ({names}) VALUES {text} ON CONFLICT DO NOTHING"
        return Change(sql, new, len(new), tuple(parameters))

    def _condition(self, prefix: str = "") -> str:
        scope = Scope(tuple(Column(one.family, one.kind, prefix, one.name) for one in self._scope.columns))
        return render(self._expressions.condition(scope, 1), Reader.DATAFUSION)[0]

    def _matching(self, select: str, where: str) -> list[Row]:
        found = self._datafusion.answer_text(f"SELECT {select} FROM {self._name}{where}")
        schema = pa.schema([one.remove_metadata() for one in self._spec.schema])
        return found.cast(schema).to_pylist() if found.num_columns == len(schema) else found.to_pylist()

    def _updated(self) -> Change:
        fixed = {*self._spec.key, *(() if self._spec.flavour is None else self._spec.flavour.follows)}
        free = [one for one in self._scope.columns if one.name not in fixed and one.family in CANONICAL]
        changed = {
            one.name: self._assigned(one)
            for one in self._rng.sample(free, min(len(free), self._rng.choice((1, 1, 2))))
        }
        where = f" WHERE {self._condition()}" if self._rng.random() < 0.9 else ""
        keys = [self._spec.key_of(row) for row in self._keys(where)]
        select = ", ".join(
            f"arrow_cast({changed[name]}, '{arrow_name(kind)}') AS {quoted(name)}"
            if name in changed
            else quoted(name)
            for name, kind in self._spec.shape.columns
        )
        rows = {self._spec.key_of(row): row for row in self._matching(select, where)}
        sets = ", ".join(f"{quoted(name)} = {value}" for name, value in changed.items())
        return Change(f"UPDATE {self._name} SET {sets}{where}", rows, len(keys))

    def _assigned(self, column: Column) -> str:
        """Of the column's type, or of one that fits in it."""
        same = [one for one in self._scope.columns if one.kind == column.kind]
        value = self._rng.choice(column.kind.values)
        chance = self._rng.random()
        if chance < 0.4 and column.family in _SPELLED:
            return literal(value, column.family)
        if chance < 0.5:
            return "NULL"
        other = render(self._rng.choice(same), Reader.DATAFUSION)[0]
        if chance < 0.7:
            return other
        own = render(column, Reader.DATAFUSION)[0]
        return f"CASE WHEN {self._condition()} THEN {other} ELSE {own} END"

    def _keys(self, where: str) -> list[Row]:
        names = ", ".join(map(quoted, self._spec.key))
        return self._datafusion.answer_text(f"SELECT {names} FROM {self._name}{where}").to_pylist()

    def _deleted(self) -> Change:
        condition = self._condition()
        if self._rng.random() < 0.5 and self._held.rows:
            key = self._rng.choice(list(self._held.rows))
            kinds = dict(self._spec.shape.columns)
            if all(kinds[name].family in _SPELLED for name in self._spec.key):
                condition = " AND ".join(
                    f"{quoted(name)} = {literal(value, kinds[name].family)}"
                    for name, value in zip(self._spec.key, key, strict=True)
                )
        gone = [self._spec.key_of(row) for row in self._keys(f" WHERE {condition}")]
        return Change(f"DELETE FROM {self._name} WHERE {condition}", dict.fromkeys(gone), len(gone))

    def _merged(self) -> Change:
        """MERGE with rows of constants: matched rows are updated or deleted, others inserted."""
        rows = self._rows(4)
        shape = self._spec.shape.columns
        if any(kind.family not in _SPELLED for _, kind in shape):
            return self._updated()
        names = ", ".join(quoted(name) for name, _ in shape)
        selects = " UNION ALL ".join(
            "SELECT "
            + ", ".join(
                f"arrow_cast({literal(row[name], kind.family)}, '{arrow_name(kind)}') AS {quoted(name)}"
                for name, kind in shape
            )
            for row in rows
        )
        on = " AND ".join(f"{self._name}.{quoted(name)} = incoming.{quoted(name)}" for name in self._spec.key)
        deletes = self._rng.random() < 0.3
        fixed = {*self._spec.key, *(() if self._spec.flavour is None else self._spec.flavour.follows)}
        sets = ", ".join(
            f"{quoted(name)} = incoming.{quoted(name)}" for name, _ in shape if name not in fixed
        )
        matched = "DELETE" if deletes else f"UPDATE SET {sets}"
        values = ", ".join(f"incoming.{quoted(name)}" for name, _ in shape)
        sql = (
            f"MERGE INTO {self._name} USING ({selects}) AS incoming ON {on} WHEN MATCHED THEN {matched} "
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        )
        done: dict[Key, Row | None] = {}
        for row in rows:
            key = self._spec.key_of(row)
            done[key] = None if deletes and key in self._held.rows else row
        return Change(sql, done, len(rows))
