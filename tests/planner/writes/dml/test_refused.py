"""What is refused says what is wrong, where, and what to do; nothing is written."""

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import LanceGatewayError, PermissionDeniedError, PreconditionError
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.writes.dml.lake import TABLES, Lake, open_lake
from tests.planner.writes.dml.titled import Case, read_titled
from tests.support.judging.principals import ALL, Principal
from tests.support.lake.tables import key_field


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def lake(root: Path) -> Iterator[Lake]:
    made = open_lake(root)
    plain = pa.table({"id": [1]}, schema=pa.schema([key_field("id", pa.int64())]))
    lance.write_dataset(plain, str(root / "plain.lance"))
    (root / "adults.view.sql").write_text("SELECT * FROM people WHERE age > 17")
    yield made
    made.engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("case", read_titled("refused.txt"), ids=str)
def test_is_refused(case: Case, lake: Lake) -> None:
    statement, status, message = case.parts
    before = {table: lake.rows(table) for table in TABLES}

    with pytest.raises(LanceGatewayError) as refused:
        lake.write(statement)

    assert (refused.value.status, str(refused.value)[: len(message)]) == (status, message)
    assert {table: lake.rows(table) for table in TABLES} == before


def test_a_place_in_a_query_is_shown_in_the_statement(lake: Lake) -> None:
    with pytest.raises(LanceGatewayError) as refused:
        lake.write("UPDATE people\nSET name = 'x',\n    age = age +\nWHERE id = 1")
    assert "line 3" in str(refused.value) or "line 4" in str(refused.value)
    assert "SELECT" not in str(refused.value)


def test_a_place_in_a_view_stays_where_it_is(root: Path, lake: Lake) -> None:
    (root / "asking.view.sql").write_text("SELECT id\nFROM people\nWHERE age > ?")
    expected = r"View 'asking': .* \(line 3, column 13\):\n  WHERE age"
    with pytest.raises(LanceGatewayError, match=expected):
        lake.write("INSERT INTO people (id)\nSELECT id\nFROM asking\nWHERE id > 100")


@pytest.mark.usefixtures("lake")
def test_a_gateway_that_only_reads_says_so(root: Path) -> None:
    engine = QueryEngine(Catalog.open(str(root), writing=None))
    with pytest.raises(PreconditionError, match="was started read-only"):
        engine.prepare_statement("DELETE FROM people")
    engine.close()


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        ({"people": ALL}, "PERMISSION_DENIED"),
        ({}, "NOT_FOUND"),
    ],
    ids=["who may read", "who may not"],
)
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO people (id) VALUES (1)",
        "UPDATE people SET age = 1 WHERE id = 1",
        "DELETE FROM people",
        "TRUNCATE people",
        "MERGE INTO people USING (SELECT 1 AS id) s ON people.id = s.id WHEN MATCHED THEN DELETE",
        "EXPLAIN DELETE FROM people",
        "WITH x AS (SELECT 1) DELETE FROM people",
    ],
)
def test_who_has_no_grant_to_write_may_not(
    lake: Lake, statement: str, seen: dict[str, TableAccess], status: str
) -> None:
    somebody = Lake(lake.engine, access=Principal(seen))
    with pytest.raises(LanceGatewayError) as refused:
        somebody.write(statement)
    assert refused.value.status == status


@pytest.mark.parametrize(
    "restriction",
    [
        TableAccess(row_filter="age > 21"),
        TableAccess(masks={"name": "'*'"}),
        TableAccess(hidden_columns=frozenset({"score"})),
    ],
    ids=["some rows", "masked columns", "hidden columns"],
)
def test_who_does_not_see_all_of_a_table_may_not_write_it(lake: Lake, restriction: TableAccess) -> None:
    somebody = Lake(lake.engine, access=Principal({"people": restriction}, writes=frozenset({"people"})))
    with pytest.raises(PermissionDeniedError, match="hides some of its rows or columns"):
        somebody.write("DELETE FROM people")


def test_sources_are_read_with_the_principal_s_own_rights(lake: Lake) -> None:
    restricted = {"people": ALL, "news": TableAccess(row_filter="id = 3")}
    somebody = Lake(lake.engine, access=Principal(restricted, writes=frozenset({"people"})))
    with pytest.raises(LanceGatewayError, match="Table 'orders' does not exist"):
        somebody.write("INSERT INTO people (id) SELECT number FROM orders")
    assert somebody.write("INSERT INTO people (id) SELECT id + 5000 FROM news").affected == 1
