"""Statements that make no sense say what is wrong, and change nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.writes.ddl.conftest import Gateway

CASES = Path(__file__).parent / "data" / "refused.txt"


def refused() -> list[tuple[str, ...]]:
    """(statement, what is said) of each case in the file."""
    blocks = CASES.read_text().strip().split("\n\n")
    return [tuple(block.split("\n-> ")) for block in blocks if not block.startswith("#")]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with the table that the cases are about."""
    root = tmp_path_factory.mktemp("refused")
    engine = QueryEngine(Catalog.open(str(root)))
    gateway = Gateway(root, engine)
    gateway("CREATE TABLE t (id INT PRIMARY KEY, name TEXT, v FLOAT[4], tags TEXT[])")
    yield gateway
    engine.close()


@pytest.mark.parametrize(("statement", "said"), refused())
def test_a_statement_that_makes_no_sense_changes_nothing(lake: Gateway, statement: str, said: str) -> None:
    before = sorted(path for path in lake.root.rglob("*") if path.is_file())
    with pytest.raises(LanceGatewayError) as caught:
        lake(statement)
    assert said in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert sorted(path for path in lake.root.rglob("*") if path.is_file()) == before
