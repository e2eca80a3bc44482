"""Grants add up, row by row and cell by cell: a combination shows what its parts show."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.gateway.auth.policy import Policy, parse_policy
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from tests.support.lake.tables import key_field

GRANTS = {
    "eu": """rows = "region = 'EU'" """,
    "own": """rows = "owner = {user}", masks = { region = "'somewhere'" }""",
    "masked": """masks = { secret = "left(secret, 1) || '*'", owner = "'?'" }""",
    "small": """rows = "id < 4", hidden = ["secret"], masks = { owner = "upper(owner)" }""",
    "null": """rows = "region IS NULL", hidden = ["secret", "owner"]""",
    "none": """rows = "id > 1000", masks = { secret = "'never'" }""",
}
POLICY = "".join(
    f'[roles.{name}]\ngrants = [{{ tables = ["t"], {grant} }}]\n' for name, grant in GRANTS.items()
)
COLUMNS = ("region", "owner", "secret")
COMBINATIONS = [names for size in (1, 2, 3, 6) for names in combinations(GRANTS, size)]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    numbers = range(8)
    return pa.table(
        [
            pa.array(numbers, pa.int64()),
            pa.array([("EU", "US", None)[number % 3] for number in numbers]),
            pa.array([("alice", "bob", None, "o'neil")[number % 4] for number in numbers]),
            pa.array([f"secret {number}" for number in numbers]),
        ],
        schema=pa.schema([key_field("id", pa.int64()), *(pa.field(name, pa.string()) for name in COLUMNS)]),
    )


@pytest.fixture
def engine(table: pa.Table, root: Path, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    lance.write_dataset(table, root / "t.lance")
    return open_engine(root)


def rows(engine: QueryEngine, policy: Policy, names: tuple[str, ...], user: str) -> dict[int, dict[str, Any]]:
    access = policy.access(Identity(user, frozenset(names), "password"))
    prepared = engine.prepare("SELECT * FROM t", DEFAULT_SETTINGS, access)
    return {row.pop("id"): row for row in prepared.execute().read_all().to_pylist()}


@pytest.mark.slow
@pytest.mark.parametrize("user", ["alice", "o'neil"])
def test_a_combination_shows_what_its_grants_show_one_by_one(
    engine: QueryEngine, table: pa.Table, user: str
) -> None:
    policy = parse_policy(POLICY, "policy.toml")
    true = {row.pop("id"): row for row in table.to_pylist()}
    alone = {name: rows(engine, policy, (name,), user) for name in GRANTS}
    for names in COMBINATIONS:
        expected: dict[int, dict[str, Any]] = {}
        for name in names:
            for key, row in alone[name].items():
                seen = expected.setdefault(key, {})
                for column, value in row.items():
                    # The column itself before the first mask.
                    if column not in seen or (value == true[key][column] and not _masks(name, column)):
                        seen[column] = value
        found = rows(engine, policy, names, user)
        columns = {column for row in found.values() for column in row}
        # A column that only other rows show is NULL.
        assert found == {
            key: {column: row.get(column) for column in columns} for key, row in expected.items()
        }, names


def _masks(name: str, column: str) -> bool:
    return f"{column} =" in GRANTS[name].partition("masks")[2]
