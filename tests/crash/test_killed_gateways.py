"""A gateway that is killed loses nothing that it acknowledged, and leaves nothing half done in a region."""

import os
import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.crash.load import Ledger, Statement, Worker, create_tables
from tests.crash.zygote import Zygote
from tests.fights.registers import meanwhile
from tests.support.gateways import EngineGateway

ROUNDS = 2000
OTHER = 9
"""The client of the gateway that is not killed."""


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as process:
        yield process


def kill_again_and_again(root: Path, zygote: Zygote, rounds: int, seed: int) -> None:
    """Kill a gateway at drawn points of its clients' work, while another gateway goes on."""
    create_tables(root)
    random_source = random.Random(seed)
    survivor = EngineGateway(root)
    ledger = Ledger()

    def tell(client: int, one: Statement) -> None:
        if one.outcome == "unknown":
            ledger.sent.setdefault(client, []).append(one)

    other = Worker(OTHER, survivor, random_source, tell, number=0)
    try:
        for turn in range(rounds):
            limit = random_source.choice((7, 30, 100_000))
            child = zygote.start(
                root,
                clients=[1, 2, 3],
                seed=seed + turn,
                number=turn * 1000,
                hold_ms=0,
                max_memtable_rows=limit,
            )
            with meanwhile(other.step) if turn % 3 == 0 else nullcontext():
                child.await_lines(random_source.randrange(1, 40))
                child.kill()
            ledger.sent |= child.sent()
            try:
                ledger.check(survivor.read("SELECT * FROM kept"), survivor.read("SELECT * FROM log"))
            except AssertionError as failure:
                failure.add_note(f"round {turn} of seed {seed}, MemTables of {limit} rows")
                raise
    finally:
        survivor.close()


@pytest.mark.slow
def test_what_was_acknowledged_survives_and_the_rest_is_whole_or_absent(root: Path, zygote: Zygote):
    kill_again_and_again(root, zygote, rounds=18, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_gateway_is_killed_thousands_of_times(root: Path, zygote: Zygote):
    """``SOAK_ROUNDS`` sets how often, ``SOAK_SEED`` repeats a run as far as chance allows."""
    seed = int(os.environ.get("SOAK_SEED", "0")) or int.from_bytes(os.urandom(2), "little")
    kill_again_and_again(root, zygote, int(os.environ.get("SOAK_ROUNDS", ROUNDS)), seed)
