"""A script of statements by one client while storage fails, and what may be there afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import lance
import pyarrow as pa

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from tests.support.lake.tables import key_field
from tests.support.processes.gateways import EngineGateway, Gateway, has_written_nothing

State: TypeAlias = dict[int, int | None]
"""Value by key."""

_SCHEMA = pa.schema([key_field("k", pa.int64()), pa.field("v", pa.int64())])


def create_table(root: Path | str, options: Mapping[str, str] | None = None) -> None:
    """A table ``t`` of three rows, in regions by `k` itself."""
    rows = pa.table([[1, 2, 3], [10, 20, 30]], schema=_SCHEMA)
    dataset = lance.write_dataset(rows, f"{root}/t.lance", storage_options=options)
    dataset.initialize_mem_wal(identity_column="k")


def _insert(state: State, key: int) -> State:
    return state | {key: key * 10 + 1}


SCRIPT = (
    ("INSERT INTO t VALUES (1, 11)", lambda state: _insert(state, 1)),
    ("INSERT INTO t VALUES (4, 41)", lambda state: _insert(state, 4)),
    ("UPDATE t SET v = v + 100 WHERE k = 1", lambda state: state | {1: (state[1] or 0) + 100}),
    ("DELETE FROM t WHERE k = 4", lambda state: {key: one for key, one in state.items() if key != 4}),
    ("SELECT * FROM t", lambda state: state),
    ("flush", lambda state: state),
    ("INSERT INTO t VALUES (4, 42), (4, 43)", lambda state: state | {4: 43}),
    (
        "MERGE INTO t USING (VALUES (4, 7)) AS s (k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v",
        lambda state: state | ({4: 7} if 4 in state else {}),
    ),
    ("INSERT INTO t VALUES (1, 99) ON CONFLICT DO NOTHING", lambda state: state),
)
"""Statements of one region each, and what they do."""


@dataclass
class Possible:
    """What a table may hold, for all that its client was told."""

    states: list[State] = field(default_factory=lambda: [{1: 10, 2: 20, 3: 30}])
    failed: list[str] = field(default_factory=list)

    def play(self, gateway: Gateway) -> None:
        """Run the script; every failure must be one of ours."""
        for sql, effect in SCRIPT:
            done = [effect(state) for state in self.states]
            try:
                self._run(gateway, sql, done)
            except LanceGatewayError as error:
                self.failed.append(str(error))
                if isinstance(error, UnavailableError) and has_written_nothing(error):
                    continue
                self.states += [state for state in done if state not in self.states]
            else:
                self.states = done

    def _run(self, gateway: Gateway, sql: str, done: list[State]) -> None:
        if sql == "flush":
            assert isinstance(gateway, EngineGateway)
            gateway.flush("t")
        elif sql.startswith("SELECT"):
            done[:] = self.states = [self.seen(gateway)]
        else:
            gateway.write(sql)

    def check(self, gateway: Gateway, where: str) -> None:
        """The table holds what is possible, and goes on to take writes."""
        try:
            self.states = [self.seen(gateway)]
            assert gateway.write("INSERT INTO t VALUES (1, 5), (2, 6), (9, 7)") == 3
            found = gateway.read("SELECT k, v FROM t WHERE k IN (1, 2, 9) ORDER BY k")
            assert found.to_pydict() == {"k": [1, 2, 9], "v": [5, 6, 7]}
            self.states = [state | {1: 5, 2: 6, 9: 7} for state in self.states]
        except Exception as error:
            error.add_note(f"{where}; {self.failed}")
            raise

    def seen(self, gateway: Gateway) -> State:
        """What a gateway shows, which must be possible."""
        rows = gateway.read("SELECT k, v FROM t")
        found = dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
        assert rows.num_rows == len(found), f"a key is there twice: {rows.to_pylist()}"
        assert found in self.states, f"{found} instead of {self.states}"
        return found
