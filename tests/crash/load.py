"""What writers do while their gateway is killed, and what must be there afterwards.

A client owns nine rows of the table ``kept``, three in each of its three regions, and writes all of them with
every statement, so that each region's three rows tell of one statement or another, and never of two. To the
table ``log``, which has no key, it appends rows of its own that must come once.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import lance
import pyarrow as pa

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.writing import PartlyWrittenError
from tests.support.lake.tables import key_field
from tests.support.processes.gateways import has_written_nothing

Kind: TypeAlias = Literal["insert", "update", "delete", "mix", "log"]
Outcome: TypeAlias = Literal["unknown", "acknowledged", "refused"]
State: TypeAlias = Mapping[int, int]
"""Value by key, of one client in one region."""

KINDS: tuple[Kind, ...] = ("insert", "insert", "update", "delete", "mix", "log", "log")
REGIONS = range(3)
PER_REGION = 3
LOGGED = 4
_KEPT = pa.schema(
    [
        key_field("g", pa.int64(), position=1),
        key_field("k", pa.int64(), position=2),
        pa.field("v", pa.int64()),
    ]
)
_LOG = pa.schema([pa.field(name, pa.int64()) for name in ("client", "number", "at")])


def create_tables(root: Path | str, options: Mapping[str, str] | None = None) -> None:
    """The two tables, empty; with storage options where the root is a prefix in an object store."""
    kept = lance.write_dataset(_KEPT.empty_table(), f"{root}/kept.lance", storage_options=options)
    kept.initialize_mem_wal(identity_column="g")
    lance.write_dataset(_LOG.empty_table(), f"{root}/log.lance", storage_options=options).initialize_mem_wal()


def keys_of(client: int) -> range:
    return range(client * PER_REGION, (client + 1) * PER_REGION)


def sql_of(kind: Kind, client: int, number: int) -> str:
    """The statement of that number of a client."""
    keys = keys_of(client)
    mine = f"k BETWEEN {keys[0]} AND {keys[-1]}"
    rows = ", ".join(f"({region}, {key}, {number})" for region in REGIONS for key in keys)
    match kind:
        case "insert":
            return f"INSERT INTO kept VALUES {rows}"
        case "update":
            return f"UPDATE kept SET v = {number} WHERE {mine}"
        case "delete":
            return f"DELETE FROM kept WHERE {mine}"
        case "mix":
            return (
                f"MERGE INTO kept USING (VALUES {rows}) AS s (g, k, v) ON kept.g = s.g AND kept.k = s.k "
                f"WHEN MATCHED AND s.k % {PER_REGION} = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
                "WHEN NOT MATCHED THEN INSERT (g, k, v) VALUES (s.g, s.k, s.v)"
            )
        case "log":
            logged = ", ".join(f"({client}, {number}, {at})" for at in range(LOGGED))
            return f"INSERT INTO log VALUES {logged}"


def after(kind: Kind, client: int, number: int, state: State) -> State:
    """What a statement makes of a client's rows of one region."""
    keys = keys_of(client)
    match kind:
        case "insert":
            return dict.fromkeys(keys, number)
        case "update":
            return dict.fromkeys(state, number)
        case "delete":
            return {}
        case "mix":
            return {key: number for key in keys if key % PER_REGION or key not in state}
        case "log":
            return state


@dataclass
class Statement:
    """One statement, and what its client learnt of it."""

    kind: Kind
    number: int
    outcome: Outcome = "unknown"


@dataclass
class Ledger:
    """What clients sent and were told since the tables were last checked, and what was there then."""

    known: dict[tuple[int, int], State] = field(default_factory=dict)
    logged: dict[tuple[int, int], int] = field(default_factory=dict)
    sent: dict[int, list[Statement]] = field(default_factory=dict)

    @property
    def acknowledged(self) -> int:
        """How many statements were."""
        return sum(one.outcome == "acknowledged" for sent in self.sent.values() for one in sent)

    def check(self, kept: pa.Table, log: pa.Table) -> None:
        """Whole and once, whatever was acknowledged; whole or absent, whatever was not."""
        found: dict[tuple[int, int], dict[int, int]] = {}
        for row in kept.to_pylist():
            rows = found.setdefault((row["k"] // PER_REGION, row["g"]), {})
            assert row["k"] not in rows, f"key {row} is there twice"
            rows[row["k"]] = row["v"]
        for client, sent in self.sent.items():
            for region in REGIONS:
                allowed = self._allowed(client, region, sent)
                state = found.get((client, region), {})
                assert state in allowed, (
                    f"client {client}, region {region}: {state} instead of {allowed} after {sent[-6:]}"
                )
        self._check_log(log)
        for place in {*self.known, *found}:
            assert place[0] in self.sent or found.get(place, {}) == self.known.get(place, {}), place
            self.known[place] = found.get(place, {})
        self.sent.clear()

    def _allowed(self, client: int, region: int, sent: Iterable[Statement]) -> list[State]:
        states = [self.known.get((client, region), {})]
        for one in sent:
            done = [after(one.kind, client, one.number, state) for state in states]
            if one.outcome == "acknowledged":
                states = done
            elif one.outcome == "unknown":
                states = [*states, *(state for state in done if state not in states)]
        return states

    def _check_log(self, log: pa.Table) -> None:
        counts = Counter((row["client"], row["number"]) for row in log.to_pylist())
        for client, sent in self.sent.items():
            for one in sent:
                if one.kind == "log":
                    count = counts.get((client, one.number), 0)
                    allowed = {"acknowledged": (LOGGED,), "unknown": (0, LOGGED), "refused": (0,)}[
                        one.outcome
                    ]
                    assert count in allowed, f"client {client}: {one} is there {count} times"
                    self.logged[client, one.number] = count
        stale = {
            key: (count, self.logged.get(key))
            for key, count in counts.items()
            if count != self.logged.get(key)
        }
        assert not stale, f"log rows changed, found and expected: {stale}"


class Writes(Protocol):
    """Takes statements that change something."""

    def write(self, sql: str) -> int: ...


@dataclass
class Worker:
    """One client that writes one statement after the other.

    Attributes:
        tell: Is told of each statement before it is sent and once its answer is there.
    """

    client: int
    gateway: Writes
    random: random.Random
    tell: Callable[[int, Statement], None]
    number: int
    kinds: tuple[Kind, ...] = KINDS

    def step(self) -> None:
        """Send the next statement.

        Raises:
            Exception: whatever leaves the outcome open.
        """
        self.number += 1
        one = Statement(self.random.choice(self.kinds), self.number)
        self.tell(self.client, one)
        try:
            self.gateway.write(sql_of(one.kind, self.client, one.number))
        except PartlyWrittenError:
            return  # others wanted the regions too: each has the statement or not
        except UnavailableError as error:
            if not has_written_nothing(error):
                raise
            one.outcome = "refused"
        else:
            one.outcome = "acknowledged"
        self.tell(self.client, one)
