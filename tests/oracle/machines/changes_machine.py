"""Random histories of tables whose changes are asked for: applied to a noted state, they give the newest."""

from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.noted_tables import write_token
from tests.oracle.machines.machine import Histories
from tests.oracle.replay.model import Cells, Column, Key
from tests.oracle.replay.subject import Subject

KINDS = {("insert",), ("delete",), ("update_after", "update_before")}


@dataclass(frozen=True)
class Noted:
    """A state of a table: its token, its columns and its rows."""

    token: str
    columns: frozenset[Column]
    rows: dict[Key, Cells]


class ChangedHistories(Histories):
    """After every step, the changes since a noted state of each table."""

    compared = 0

    def __init__(self) -> None:
        super().__init__()
        self.noted: dict[str, list[Noted]] = {}

    def check(self, data: Any) -> None:
        catalog = Catalog.open(str(self.directory))
        for subject in self.subjects:
            name = subject.table.name
            known = self.noted.setdefault(name, [])
            if known:
                since = data.draw(st.sampled_from(known))
                shortcuts = data.draw(st.sampled_from(("all", "none")))
                try:
                    self._compare(since, subject, shortcuts)
                    self._replay(since, subject, shortcuts)
                except PreconditionError as error:
                    assert "cleaned up" in str(error)  # noqa: PT017 - it may as well not be raised
                    known.remove(since)
            table = catalog.table(name)
            regions = table.assignments(table.base(), "strong").region_ids
            now = Noted(
                write_token(table.take_snapshot(regions)),
                frozenset(subject.model.columns),
                {key: dict(cells) for key, cells in subject.model.rows().items()},
            )
            known.append(now)
        catalog.close()

    def _compare(self, since: Noted, subject: Subject, shortcuts: str) -> None:
        """Each change fits to both states, and what has none is the same in both."""
        sql = f"SELECT * FROM lance_changes('{subject.table.name}', since => '{since.token}')"
        found = self.executor.run(sql, (), consistency="strong", pruning=True, shortcuts=shortcuts)
        type(self).compared += 1
        columns = subject.model.columns
        types = {column.field_id: column.type for column in since.columns}
        shared = [column for column in columns if types.get(column.field_id) == column.type]
        before, after = _table(since.rows, columns, shared), _table(subject.model.rows(), columns, columns)
        kinds: dict[Key, Counter[str]] = {}
        for change in found.to_pylist():
            key = tuple(change[name] for name in subject.table.key)
            kinds.setdefault(key, Counter())[change["_change"]] += 1
            state = before if change["_change"] in {"update_before", "delete"} else after
            shown = [change[column.name] for column in columns]
            assert repr(shown) == repr(state[key]), (change, sql, shortcuts)
        for key in {*before, *after}:
            kind = tuple(sorted(kinds.get(key, Counter()).elements()))
            if repr(before.get(key)) == repr(after.get(key)):
                assert not kind, (key, kind, sql, shortcuts)
            else:
                expected = "delete" if key not in after else "insert" if key not in before else "update_after"
                assert kind in KINDS, (key, kind, sql, shortcuts)
                assert expected in kind, (key, kind, sql, shortcuts)

    def _replay(self, since: Noted, subject: Subject, shortcuts: str) -> None:
        """Every single change fits to the state that those before it made; the last one is the newest."""
        name, key = subject.table.name, subject.table.key
        sql = f"SELECT * FROM lance_changes('{name}', since => '{since.token}', mode => 'all')"
        found = self.executor.run(sql, (), consistency="strong", pruning=True, shortcuts=shortcuts)
        columns = subject.model.columns
        types = {column.field_id: column.type for column in since.columns}
        shared = [column for column in columns if types.get(column.field_id) == column.type]
        state = _table(since.rows, columns, shared)
        for change in sorted(found.to_pylist(), key=itemgetter("_sequence")):
            at, kind = tuple(change[name] for name in key), change["_change"]
            row = [change[column.name] for column in columns]
            if kind in {"update_before", "delete"}:
                assert repr(state.pop(at)) == repr(row), (change, sql, shortcuts)
            else:
                assert at not in state, (change, sql, shortcuts)
                state[at] = row
        newest = _table(subject.model.rows(), columns, columns)
        assert repr(sorted(state.items(), key=repr)) == repr(sorted(newest.items(), key=repr)), (
            sql,
            shortcuts,
        )


def _table(rows: dict[Key, Cells], columns: tuple[Column, ...], shared: Any) -> dict[Key, list[Any]]:
    """Rows under the present columns, as Arrow gives them back; NULL in those that a state did not have."""
    names = [
        pa.array([cells.get(one.field_id) if one in shared else None for cells in rows.values()], one.type)
        for one in columns
    ]
    values = [array.to_pylist() for array in names]
    return {key: [column[at] for column in values] for at, key in enumerate(rows)}
