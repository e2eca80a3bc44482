"""What DBeaver, Metabase and Tableau send when they connect, browse and show a table."""

import pytest

from tests.jdbc.jvm import Facts, Failure, Jvm

pytestmark = pytest.mark.slow

# Tool -> what fails, and why a tool can live with it.
FAILING = {
    "DBeaver": set[str](),
    "Metabase": {"typed values"},  # the driver reads no NULL as LocalDate; 18.0 no LocalDateTime either
    "Tableau": set[str](),
}


@pytest.fixture(scope="module")
def replayed(jvm: Jvm, url: str) -> dict[str, Facts]:
    return {tool: jvm.run("Tools", tool, url) for tool in FAILING}


@pytest.mark.parametrize("tool", FAILING)
def test_a_tool_gets_its_answers(replayed: dict[str, Facts], tool: str) -> None:
    facts = replayed[tool]
    failed = {name: value.text for name, value in facts.all().items() if isinstance(value, Failure)}
    assert set(failed) == FAILING[tool], failed
    assert [row[2] for row in facts["tables and views"]] == ["big_orders", "orders", "types"]
    assert [row[3] for row in facts["columns"]] == ["id", "customer", "amount"]
    assert facts["primary key"] == [["lance", "main", "orders", "id", 1, None]]


def test_a_grid_shows_no_more_rows_than_asked_for(replayed: dict[str, Facts]) -> None:
    assert replayed["DBeaver"]["SELECT * FROM main.orders"] == 200
