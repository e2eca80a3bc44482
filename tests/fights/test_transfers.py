"""Transactions of several gateways fight for the same rows: nothing is lost, and nobody sees half of one."""

import functools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import ConflictError, UnavailableError
from tests.fights.registers import create_registers, meanwhile, run_all
from tests.fights.test_linearizable import Disturber
from tests.support.processes.gateways import EngineGateway, EngineTransaction, has_written_nothing

ACCOUNTS = 4
CLIENTS, ROUNDS = 4, 8
TOTAL = "SELECT count(*), sum(v) FROM r"


def total(gateway: EngineGateway | EngineTransaction) -> tuple[int, int]:
    (row,) = gateway.read(TOTAL).to_pylist()
    count, amount = row.values()
    return count, amount


class Client:
    """Moves amounts between accounts, and begins again when others were faster."""

    def __init__(self, gateway: EngineGateway, seed: int) -> None:
        self.gateway = gateway
        self.random = random.Random(seed)
        self.balance = [0] * ACCOUNTS
        self.conflicts = 0

    def step(self) -> None:
        giver, taker = self.random.sample(range(ACCOUNTS), 2)
        while not self.transfer(giver, taker):
            self.conflicts += 1
        self.balance[giver] -= 1
        self.balance[taker] += 1

    def transfer(self, giver: int, taker: int) -> bool:
        transaction = EngineTransaction(self.gateway)
        assert total(transaction) == (ACCOUNTS, 0)
        for key, change in ((giver, -1), (taker, 1)):
            assert transaction.write(f"UPDATE r SET v = v + {change} WHERE k = {key}") == 1
        assert total(transaction) == (ACCOUNTS, 0)
        try:
            transaction.commit()
        except ConflictError:
            return False
        except UnavailableError as error:
            if not has_written_nothing(error):
                raise
            return False
        return True


@pytest.mark.slow
@pytest.mark.soak
def test_transfers_between_accounts_of_one_region(
    root: Path, open_gateways: Callable[..., list[EngineGateway]]
):
    """By two gateways, through flushes and merges, while a third one watches the total."""
    table = create_registers(root, regions=1)
    gateways = open_gateways(3)
    gateways[0].write(f"INSERT INTO r VALUES {', '.join(f'({key}, 0)' for key in range(ACCOUNTS))}")

    def watch() -> None:
        assert total(gateways[2]) == (ACCOUNTS, 0), "half of a transaction was seen"

    clients = [Client(gateways[number % 2], number) for number in range(CLIENTS)]
    with meanwhile(Disturber(table, gateways[:2], seed=5).step), meanwhile(watch):
        run_all([functools.partial(client.step) for client in clients], rounds=ROUNDS)
    rows = gateways[2].read("SELECT v FROM r ORDER BY k")["v"].to_pylist()
    assert rows == [sum(client.balance[key] for client in clients) for key in range(ACCOUNTS)]
    assert sum(client.conflicts for client in clients), "nobody was ever in another one's way"
