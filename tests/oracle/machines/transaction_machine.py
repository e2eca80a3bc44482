"""Random histories with transactions: what they read, what others see of them, and what COMMIT leaves."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from lance_gateway.memwal.errors import ConflictError
from tests.oracle.answers import queries
from tests.oracle.answers.answers import Oracle
from tests.oracle.machines.writing_machine import WritingHistories
from tests.oracle.replay.changes import CHANGES, Change, Target
from tests.oracle.replay.jobs import MERGES
from tests.oracle.replay.model import Cells, Key, TableModel
from tests.oracle.replay.subject import Subject
from tests.support.judging.results import assert_same_rows
from tests.support.processes.gateways import EngineGateway, EngineTransaction

BLIND = frozenset({"insert values", "insert parameters", "insert many", "insert query"})
"""Changes that don't depend on the rows of their keys."""


class _Seen:
    """A table as a transaction must see it, and what the transaction changed."""

    def __init__(self, subject: Subject) -> None:
        model = subject.model
        self.subject = subject
        self.before: Mapping[Key, Cells] = model.rows()
        self.model = TableModel(model.columns, model.key, base=dict(self.before))
        self.changed: dict[Key, Cells | None] = {}
        self.read: set[Key] = set()

    @property
    def target(self) -> Target:
        return Target(self.subject.table.name, self.model, self.subject.follows)

    def change(self, drawn: Change, *, is_blind: bool) -> None:
        for key, cells in drawn.rows.items():
            self.changed[key] = cells
            if cells is None:
                self.model.base.pop(key, None)
            else:
                self.model.base[key] = cells
        if not is_blind:
            self.read |= set(drawn.rows)

    def conflicts(self) -> bool:
        """Whether others changed a row that the transaction read and changed."""
        if not self.changed:
            return False
        now = self.subject.model.rows()
        return any(repr(self.before.get(key)) != repr(now.get(key)) for key in self.read)


class TransactionHistories(WritingHistories):
    """Adds transactions of several statements, among which others write, merge and flush."""

    @rule(data=st.data())
    def transact(self, data: Any) -> None:
        gateway = data.draw(st.sampled_from(self.gateways))
        assert isinstance(gateway, EngineGateway)
        transaction = EngineTransaction(gateway)
        seen = [_Seen(subject) for subject in self.subjects]
        self._ask(data, transaction, seen)
        for _ in range(data.draw(st.integers(1, 4), label="steps of the transaction")):
            step = data.draw(st.sampled_from(("change", "change", "change", "others", "merge", "flush")))
            if step == "change":
                self._change_in(data, transaction, seen)
            elif step == "others":
                self._change(data)
            elif step == "merge":
                self._run_job(data, MERGES[data.draw(st.sampled_from(sorted(MERGES)))])
            else:
                self.gateway_flushes(data)
            self._ask(data, transaction, seen)
        self._end(transaction, seen, commits=data.draw(st.integers(0, 3), label="rolls back if 0") > 0)
        self.check(data)

    @rule(data=st.data())
    def transact_more(self, data: Any) -> None:
        """There are many other steps."""
        self.transact(data)

    def _change_in(self, data: Any, transaction: EngineTransaction, seen: list[_Seen]) -> None:
        one, other = data.draw(st.permutations(seen))
        kind = data.draw(st.sampled_from(sorted(set(self.changes) - {"ingest"})))
        drawn = CHANGES[kind](data.draw, one.target, other.target)
        if drawn.many is None:
            affected = transaction.write(drawn.sql, drawn.parameters)
        else:
            affected = transaction.write_many(drawn.sql, drawn.many)
        assert affected == drawn.affected, f"{drawn.sql} affected {affected} rows, not {drawn.affected}"
        one.change(drawn, is_blind=kind in BLIND)

    def _ask(self, data: Any, transaction: EngineTransaction, seen: list[_Seen]) -> None:
        """Read both tables whole, and ask one drawn query."""
        expected = {one.subject.table.name: one.model.table() for one in seen}
        for name, table in expected.items():
            answer = transaction.read(f"SELECT * FROM {name}")
            assert_same_rows(answer, table, context=f"all of {name}, in the transaction")
        drawn = queries.query(data.draw, [one.subject.shape() for one in seen])
        answer = transaction.read(drawn.sql, drawn.parameters)
        Oracle(expected).check(drawn, answer, "in the transaction")

    def _end(self, transaction: EngineTransaction, seen: list[_Seen], *, commits: bool) -> None:
        for subject in self.subjects:
            self._drop_fenced(subject)
        before = [self._logs(subject) for subject in self.subjects]
        is_written = commits and not any(one.conflicts() for one in seen)
        if not commits:
            transaction.roll_back()
        elif is_written:
            transaction.commit()
        else:
            with pytest.raises(ConflictError, match="nothing of the transaction was written"):
                transaction.commit()
        for subject, logs, one in zip(self.subjects, before, seen, strict=True):
            self._settle(subject, logs, one.changed if is_written else {})
