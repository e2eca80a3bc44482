"""One root, and one server process, for all who throw things at it."""

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

from tests.fuzz.target import Target, target
from tests.gateway.conftest import orders, typed_rows


@pytest.fixture(scope="session")
def fuzz_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the tables `orders` and `typed` and the view `big_orders`, small enough for any query."""
    root = tmp_path_factory.mktemp("fuzz")
    lance.write_dataset(orders().slice(0, 40), root / "orders.lance", max_rows_per_file=10)
    lance.write_dataset(typed_rows(), root / "typed.lance")
    (root / "big_orders.view.sql").write_text("SELECT id, amount FROM orders WHERE amount >= 4")
    return root


@pytest.fixture(scope="session")
def fuzzed(fuzz_root: Path) -> Iterator[Target]:
    """The server that all tests of this directory share."""
    with target(fuzz_root) as server:
        yield server
