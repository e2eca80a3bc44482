"""Random histories of tables that are restored to former states, among the steps of the others."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.oracle.machines.writing_machine import WritingHistories
from tests.oracle.replay.model import Cells, Column, Key

_CLEANED_UP = re.compile("has no version|cleaned up|is no longer known")


@dataclass(frozen=True)
class FormerState:
    """What a version of a table showed.

    Attributes:
        version: of the base table.
        rows: by key.
    """

    version: int
    rows: Mapping[Key, Cells]

    def list_differences(self, rows: Mapping[Key, Cells]) -> dict[Key, Cells | None]:
        """What has to be written to get from other rows to these; None for keys that go."""
        back = {key: cells for key, cells in self.rows.items() if _say(cells) != _say(rows.get(key))}
        return {**back, **dict.fromkeys(rows.keys() - self.rows.keys())}


def _say(cells: Cells | None) -> str:
    """A text that is equal for values that SQL does not tell from one another."""
    present = {} if cells is None else {key: value for key, value in cells.items() if value is not None}
    return "no row" if cells is None else repr(sorted(present.items()))


class RestoreHistories(WritingHistories):
    """Adds versions that are remembered, and RESTORE to them."""

    def __init__(self) -> None:
        super().__init__()
        self.remembered: dict[str, dict[tuple[Column, ...], FormerState]] = {}

    @rule(data=st.data())
    def remember(self, data: Any) -> None:
        """A version is committed, with what is flushed by then on top."""
        subject = data.draw(st.sampled_from(self.subjects))
        before = self._logs(subject)
        gateway = data.draw(st.sampled_from(self.gateways))
        gateway.write(f"COMMENT ON TABLE {subject.table.name} IS 'remembered'")
        rows = {key: dict(cells) for key, cells in subject.model.rows(flushed_only=True).items()}
        state = FormerState(subject.table.dataset().version, rows)
        self.remembered.setdefault(subject.table.name, {})[subject.model.columns] = state
        self._settle(subject, before, {})
        self.check(data)

    @precondition(lambda self: self.remembered)
    @rule(data=st.data())
    def restore(self, data: Any) -> None:
        """A state with the columns of today comes back, unless it was cleaned up."""
        subject = data.draw(st.sampled_from(self.subjects))
        states = self.remembered.get(subject.table.name, {})
        ids = {one.field_id for one in subject.model.columns}
        fitting = [state for columns, state in states.items() if {one.field_id for one in columns} == ids]
        if not fitting:
            return
        state = fitting[-1]
        differing = state.list_differences(subject.model.rows())
        self._drop_fenced(subject)
        before = self._logs(subject)
        gateway = data.draw(st.sampled_from(self.gateways))
        try:
            affected = gateway.write(f"RESTORE TABLE {subject.table.name} TO VERSION {state.version}")
        except Exception as error:
            if not _CLEANED_UP.search(str(error)):
                raise
            affected, differing = 0, {}
        assert affected == len(differing), f"{affected} rows were restored, not {differing}"
        self._settle(subject, before, differing)
        self.check(data)
