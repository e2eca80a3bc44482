"""What clients in other languages share: the tables of docs/clients.md, served by a process."""

from collections.abc import Iterator

import lance
import pytest

from tests.gateway.conftest import orders
from tests.support.judging.documented import SHOP
from tests.support.processes.servers import GatewayProcess, open_connection


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The port of a gateway with the tables of docs/clients.md, and `many`, of 1000 rows in four files."""
    root = tmp_path_factory.mktemp("shop")
    lance.write_dataset(orders(), root / "many.lance", max_rows_per_file=250)
    with GatewayProcess(root, "--http-port", "off") as gateway:
        with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
            for statement in SHOP:
                cursor.execute(statement)
        yield gateway.uri.rpartition(":")[2]
