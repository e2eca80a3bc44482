"""A former state of a table, and what has changed since, as relations that statements read."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.planner.engine import PreparedQuery, PreparedWrite, QueryEngine, SessionSettings
from lance_gateway.planner.scans.settings import NO_SHORTCUTS
from tests.fuzz.sql.grammar.kinds import INT64, TEXT
from tests.fuzz.sql.grammar.sources import Shape
from tests.fuzz.sql.grammar.tree import quoted
from tests.fuzz.sql.lake.lakes import HeldTable, Lake

_PLAIN = SessionSettings(shortcuts=NO_SHORTCUTS)


@dataclass(frozen=True)
class Past:
    """A table, as it was when the lake was written, and its changes.

    Attributes:
        then: The former state, by its version.
        changes: What `lance_changes` tells since.
        rows: Of the former state.
    """

    table: str
    then: Shape
    changes: Shape
    rows: pa.Table
    _engine: QueryEngine

    @staticmethod
    def remember(rng: random.Random, lake: Lake, engine: QueryEngine) -> Past | None:
        """Commit the rows of a table that has a key; None where no table has one."""
        tables = [one for one in lake.tables.values() if one.spec.key]
        if not tables:
            return None
        held = rng.choice(tables)
        shape, name = held.spec.shape, held.spec.name
        version = _commit(engine, held)
        then = Shape(
            f"{name}_then", shape.columns, shape.key, spelled=f"{quoted(name)} FOR VERSION AS OF {version}"
        )
        is_net = rng.random() < 0.7
        more = (("_change", TEXT),) if is_net else (("_change", TEXT), ("_sequence", INT64))
        changes = Shape(
            f"{name}_changes",
            (*shape.columns, *more),
            (*shape.key, "_change") if is_net else ("_sequence",),
            spelled=f"lance_changes('{name}', since => {version}, mode => '{'net' if is_net else 'all'}')",
        )
        return Past(name, then, changes, held.table(), engine)

    def list_changes(self) -> pa.Table:
        """All changes, as the gateway tells them without shortcuts: the state machines judge those."""
        columns = ", ".join(quoted(name) for name, _ in self.changes.columns)
        prepared = self._engine.prepare_statement(f"SELECT {columns} FROM {self.changes.spelled}", _PLAIN)
        assert isinstance(prepared, PreparedQuery)
        schema = pa.schema([(name, kind.arrow) for name, kind in self.changes.columns])
        return prepared.execute().read_all().cast(schema)


def _commit(engine: QueryEngine, held: HeldTable) -> int:
    """Have a version that has all rows; returns it."""
    held.flush()
    name = quoted(held.spec.name)
    prepared = engine.prepare_statement(f"COMMENT ON TABLE {name} IS 'remembered'")
    assert isinstance(prepared, PreparedWrite)
    prepared.execute()
    return engine.catalog.table(held.spec.name).base().version
