"""Random histories of tables that are flushed, tagged and restored, among the steps of the others."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.oracle.machines.writing_machine import WritingHistories
from tests.oracle.replay.model import Cells, Column, Key, TableModel
from tests.oracle.replay.subject import Subject
from tests.support.judging.results import assert_same_rows
from tests.support.lake.moments import write_moment

_CLEANED_UP = re.compile("has no version|cleaned up|is no longer known|oldest version that is kept")


@dataclass(frozen=True)
class FormerState:
    """What a version, a tag or a moment of a table has to show.

    Attributes:
        named: as AS OF and RESTORE TO name it.
        rows: by key.
    """

    named: str
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
        self.remembered: dict[str, dict[tuple[Column, ...], list[FormerState]]] = {}
        self.tags = 0

    @rule(data=st.data())
    def remember(self, data: Any) -> None:
        """A version is committed, with what is flushed by then on top."""
        subject = data.draw(st.sampled_from(self.subjects))
        before = self._logs(subject)
        gateway = data.draw(st.sampled_from(self.gateways))
        gateway.write(f"COMMENT ON TABLE {subject.table.name} IS 'remembered'")
        rows = {key: dict(cells) for key, cells in subject.model.rows(flushed_only=True).items()}
        self._remember(subject, f"VERSION AS OF {subject.table.dataset().version}", rows)
        self._settle(subject, before, {})
        self.check(data)

    @rule(data=st.data())
    def tag(self, data: Any) -> None:
        """A tag has all that is acknowledged, wherever it is."""
        subject = data.draw(st.sampled_from(self.subjects))
        before, self.tags = self._logs(subject), self.tags + 1
        data.draw(st.sampled_from(self.gateways)).write(f"CREATE TAG t{self.tags} ON {subject.table.name}")
        self._remember(subject, f"VERSION AS OF 't{self.tags}'", subject.model.rows())
        self._settle(subject, before, {})
        self._read_former(data, subject)
        self.check(data)

    @rule(data=st.data())
    def note_the_time(self, data: Any) -> None:
        """A moment has all that is acknowledged, wherever it is."""
        subject = data.draw(st.sampled_from(self.subjects))
        moment = write_moment(self.directory)
        self._remember(subject, f"TIMESTAMP AS OF {moment}", subject.model.rows())
        self._read_former(data, subject)

    @rule(data=st.data())
    def flush_table(self, data: Any) -> None:
        """What is in logs is flushed, whoever wrote it."""
        subject = data.draw(st.sampled_from(self.subjects))
        self._drop_fenced(subject)
        before = self._logs(subject)
        data.draw(st.sampled_from(self.gateways)).write(f"FLUSH TABLE {subject.table.name}")
        self._settle(subject, before, {})
        assert subject.model.rows() == subject.model.rows(flushed_only=True)
        self.check(data)

    @precondition(lambda self: self.remembered)
    @rule(data=st.data())
    def read_a_former_state(self, data: Any) -> None:
        """A state of the same columns shows what it had, unless it was cleaned up."""
        self._read_former(data, data.draw(st.sampled_from(self.subjects)))

    def _remember(self, subject: Subject, named: str, rows: Mapping[Key, Cells]) -> None:
        state = FormerState(named, {key: dict(cells) for key, cells in rows.items()})
        of_columns = self.remembered.setdefault(subject.table.name, {})
        of_columns.setdefault(subject.model.columns, []).append(state)

    def _read_former(self, data: Any, subject: Subject) -> None:
        states = self.remembered.get(subject.table.name, {}).get(subject.model.columns)
        if not states:
            return
        state = data.draw(st.sampled_from(states))
        gateway = data.draw(st.sampled_from(self.gateways))
        names = ", ".join(f'"{one.name}"' for one in subject.model.columns)
        try:
            read = gateway.read(f"SELECT {names} FROM {subject.table.name} FOR {state.named}")
        except Exception as error:
            if not _CLEANED_UP.search(str(error)):
                raise
            return
        model = TableModel(subject.model.columns, subject.model.key, dict(state.rows))
        assert_same_rows(read, model.table(), context=f"{subject.table.name} FOR {state.named}")

    @precondition(lambda self: self.remembered)
    @rule(data=st.data())
    def restore(self, data: Any) -> None:
        """A state with the columns of today comes back, unless it was cleaned up."""
        subject = data.draw(st.sampled_from(self.subjects))
        states = self.remembered.get(subject.table.name, {})
        ids = {one.field_id for one in subject.model.columns}
        fitting = [
            state
            for columns, of_columns in states.items()
            if {one.field_id for one in columns} == ids
            for state in of_columns
        ]
        if not fitting:
            return
        state = data.draw(st.sampled_from(fitting))
        differing = state.list_differences(subject.model.rows())
        self._drop_fenced(subject)
        before = self._logs(subject)
        gateway = data.draw(st.sampled_from(self.gateways))
        try:
            affected = gateway.write(f"RESTORE TABLE {subject.table.name} TO {state.named}")
        except Exception as error:
            if not _CLEANED_UP.search(str(error)):
                raise
            affected, differing = 0, {}
        assert affected == len(differing), f"{affected} rows were restored, not {differing}"
        self._settle(subject, before, differing)
        self.check(data)
