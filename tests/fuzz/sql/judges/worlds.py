"""What somebody sees of a lake, and everybody who can say what they should see."""

import random
from dataclasses import dataclass, replace

from lance_gateway.planner.access.rights import FULL_ACCESS, Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedWrite, QueryEngine, SessionSettings
from lance_gateway.planner.scans.settings import NO_SHORTCUTS, Shortcut
from lance_gateway.planner.writes.transactions.transaction import Transaction
from tests.fuzz.sql.grammar.queries import Queries
from tests.fuzz.sql.grammar.tree import quoted
from tests.fuzz.sql.judges.engines import Engine, GatewayEngine, References
from tests.fuzz.sql.judges.forms import draw_form
from tests.fuzz.sql.judges.verdicts import Court, Tally
from tests.fuzz.sql.lake.access import Rights
from tests.fuzz.sql.lake.lakes import Lake
from tests.fuzz.sql.lake.past import Past

WITHOUT_SHORTCUTS = SessionSettings(shortcuts=NO_SHORTCUTS)


@dataclass
class World:
    """One principal's view of a lake.

    Attributes:
        rights: Of the principal; None for one who sees all.
        past: That they may read; None where there is none.
    """

    lake: Lake
    rights: Rights | None
    court: Court
    queries: Queries
    references: References
    engines: tuple[QueryEngine, ...]
    past: Past | None = None

    @staticmethod
    def open(
        rng: random.Random,
        lake: Lake,
        engines: tuple[QueryEngine, ...],
        tally: Tally,
        rights: Rights | None,
        past: Past | None = None,
    ) -> "World":
        """Copy the rows that are seen for the references."""
        seen = {name: one.table() for name, one in lake.tables.items()}
        views = lake.views
        if rights is not None:
            seen = {name: rights.seen(name, table) for name, table in seen.items()}
            named = {one.name for one in rights.shapes}
            views = {name: text for name, text in views.items() if name in named}
        if past is not None:
            seen |= {past.then.name: past.rows, past.changes.name: past.list_changes()}
        references = References.over(seen, views)
        access: Access = FULL_ACCESS if rights is None else rights.principal
        gateway = GatewayEngine(engines[0], access=access)
        court = Court(gateway, references.datafusion, references.duckdb, tally)
        shapes = lake.shapes if rights is None else rights.shapes
        shapes = [*shapes, *(() if past is None else (past.then, past.changes))]
        return World(
            lake, rights, court, Queries(rng, shapes, writes=rights is None), references, engines, past
        )

    def refresh(self, name: str) -> None:
        """Copy the rows of a table that was changed."""
        table = self.lake.tables[name].table()
        self.references.set_table(name, table if self.rights is None else self.rights.seen(name, table))
        if self.past is not None and self.past.table == name:
            self.references.set_table(self.past.changes.name, self.past.list_changes())

    def twins(self, rng: random.Random, forms: float) -> tuple[Engine, ...]:
        """Another way to ask the gateway, or none: ways cost as much as the answer itself.

        Args:
            forms: how often that is another form of the statement.
        """
        chance = rng.random()
        gateway = self.court.gateway
        assert isinstance(gateway, GatewayEngine)
        if chance < 0.12:
            return (gateway.with_settings("shortcuts = none", WITHOUT_SHORTCUTS),)
        if chance < 0.18:
            some = frozenset(one for one in Shortcut if rng.random() < 0.5)
            return (gateway.with_settings("shortcuts, some", SessionSettings(shortcuts=some)),)
        if chance < 0.24:
            return (replace(gateway, engine=self.engines[1], name="another gateway"),)
        if chance < 0.29:
            return self._in_transaction(rng, gateway)
        if chance < 0.29 + forms:
            return (draw_form(rng, gateway, may_define=self.rights is None),)
        return ()

    def _in_transaction(self, rng: random.Random, gateway: GatewayEngine) -> tuple[GatewayEngine, ...]:
        """The same in a transaction that has written some rows as they are."""
        specs = [one.spec for one in self.lake.tables.values() if one.spec.is_written]
        if not specs:
            return ()
        spec = rng.choice(specs)
        transaction = Transaction(gateway.engine, 1 << 30)
        control = RunControl()
        control.transaction = transaction
        name, key = quoted(spec.name), quoted(spec.shape.key[0])
        limit = rng.choice((0, 1, 5, 1000))
        write = gateway.engine.prepare_statement(
            f"INSERT INTO {name} SELECT * FROM {name} ORDER BY {key} LIMIT {limit}"
        )
        assert isinstance(write, PreparedWrite)
        with transaction.statement():
            write.execute((), control)
        return (replace(gateway, name="in a transaction", transaction=transaction),)

    def everybody(self) -> tuple[Engine, ...]:
        """Whoever answers, for a report."""
        gateway = self.court.gateway
        assert isinstance(gateway, GatewayEngine)
        without = gateway.with_settings("shortcuts = none", WITHOUT_SHORTCUTS)
        return gateway, without, self.references.datafusion, self.references.duckdb

    def close(self) -> None:
        """Free the copies."""
        self.references.close()
