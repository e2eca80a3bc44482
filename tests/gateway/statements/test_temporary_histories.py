"""Random histories of two sessions with temporary and permanent tables of the same names, beside a model."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.gateway.statements.test_temporary_tables import ask, run, serving, uri_of
from tests.support.processes.servers import open_connection

SESSIONS = st.sampled_from([0, 1])
NAMES = st.sampled_from(["a", "b"])
VALUES = st.integers(0, 9)
ERROR = adbc_driver_manager.Error


class Histories(RuleBasedStateMachine):
    """Name -> rows of what is permanent, and of what each session has besides."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.permanent: dict[str, list[int]] = {}
        self.temporary: list[dict[str, list[int]]] = [{}, {}]

    @initialize()
    def start(self) -> None:
        directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.server = self.stack.enter_context(serving(directory))
        self.connections = [self.connect(), self.connect()]

    def connect(self) -> Any:
        return self.stack.enter_context(open_connection(uri_of(self.server)))

    def teardown(self) -> None:
        self.stack.close()

    def find(self, session: int, name: str) -> list[int] | None:
        return self.temporary[session].get(name, self.permanent.get(name))

    def expect(self, session: int, statement: str, *, works: bool) -> None:
        if works:
            run(self.connections[session], statement)
            return
        with pytest.raises(ERROR):
            run(self.connections[session], statement)

    @rule(session=SESSIONS, name=NAMES, value=VALUES, is_temporary=st.booleans())
    def create(self, session: int, name: str, value: int, is_temporary: bool) -> None:
        among = self.temporary[session] if is_temporary else self.permanent
        word = "TEMP TABLE" if is_temporary else "TABLE"
        self.expect(session, f"CREATE {word} {name} AS SELECT {value} AS v", works=name not in among)
        among.setdefault(name, [value])

    @rule(session=SESSIONS, name=NAMES, source=NAMES)
    def replace(self, session: int, name: str, source: str) -> None:
        rows = self.find(session, source)
        text = f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT v + 1 AS v FROM {source}"
        self.expect(session, text, works=rows is not None)
        if rows is not None:
            self.temporary[session][name] = [value + 1 for value in rows]

    @rule(session=SESSIONS, name=NAMES)
    def drop(self, session: int, name: str) -> None:
        self.expect(session, f"DROP TABLE {name}", works=self.find(session, name) is not None)
        among = self.temporary[session] if name in self.temporary[session] else self.permanent
        among.pop(name, None)

    @rule(session=SESSIONS, name=NAMES, value=VALUES)
    def insert(self, session: int, name: str, value: int) -> None:
        rows = self.find(session, name)
        self.expect(session, f"INSERT INTO {name} VALUES ({value})", works=rows is not None)
        if rows is not None:
            rows.append(value)

    @rule(session=SESSIONS, name=NAMES, value=VALUES)
    def delete(self, session: int, name: str, value: int) -> None:
        rows = self.find(session, name)
        self.expect(session, f"DELETE FROM {name} WHERE v < {value}", works=rows is not None)
        if rows is not None:
            rows[:] = [one for one in rows if one >= value]

    @rule(session=SESSIONS)
    def end(self, session: int) -> None:
        self.connections[session].close()
        self.connections[session] = self.connect()
        self.temporary[session] = {}

    @rule(session=SESSIONS, name=NAMES)
    def read(self, session: int, name: str) -> None:
        connection = self.connections[session]
        for text, rows in (
            (name, self.find(session, name)),
            (f"main.{name}", self.permanent.get(name)),
            (f"pg_temp.{name}", self.temporary[session].get(name)),
        ):
            if rows is None:
                with pytest.raises(ERROR, match="does not exist"):
                    ask(connection, f"SELECT v FROM {text}")
            else:
                assert ask(connection, f"SELECT v FROM {text}") == sorted((value,) for value in rows)
        listed = ask(
            connection,
            "SELECT table_name FROM information_schema.tables WHERE table_schema LIKE 'pg\\_temp%'",
        )
        assert listed == sorted((one,) for one in self.temporary[session])


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
