"""A catalog finds each table once: a statement's preparation knows one version, and each run asks again."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import NotFoundError
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.table import Table

ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lance.write_dataset(ROWS, tmp_path / "people.lance")
    (tmp_path / "names.view.sql").write_text("SELECT name FROM people")
    return tmp_path


@pytest.fixture
def catalog(root: Path) -> VisibleCatalog:
    return VisibleCatalog(Catalog.open(str(root)), FULL_ACCESS)


def test_a_table_stays_as_it_was_found(catalog: VisibleCatalog, root: Path) -> None:
    found = catalog.find("people")
    lance.write_dataset(ROWS, root / "people.lance", mode="append")
    assert found is not None
    assert catalog.find("people") is found is catalog.table("people")
    assert found.base.version == 1
    assert catalog.reopen().table("people").base.version == 2


def test_it_holds_as_long_as_tables_have_their_columns(catalog: VisibleCatalog, root: Path) -> None:
    catalog.find("people")
    lance.write_dataset(ROWS, root / "people.lance", mode="append")
    assert catalog.is_current()
    assert catalog.table("people").base.version == 2
    lance.dataset(root / "people.lance").drop_columns(["name"])
    assert not catalog.is_current()


def test_it_does_not_hold_once_a_view_says_something_else(catalog: VisibleCatalog, root: Path) -> None:
    assert catalog.view_sql("names") is not None
    assert catalog.is_current()
    (root / "names.view.sql").write_text("SELECT id FROM people")
    assert catalog.view_sql("names") == "SELECT name FROM people"
    assert not catalog.is_current()


def test_what_is_missing_is_looked_for_again(catalog: VisibleCatalog, root: Path) -> None:
    assert catalog.find("more") is None
    with pytest.raises(NotFoundError, match="more"):
        catalog.table("more")
    lance.write_dataset(ROWS, root / "more.lance")
    assert catalog.find("more") is not None


def test_the_newest_version_is_looked_for_once_per_preparation(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = QueryEngine(Catalog.open(str(root)))
    asked: list[str] = []
    find = Table.base

    def base(table: Table) -> BaseTable:
        asked.append(table.name)
        return find(table)

    monkeypatch.setattr(Table, "base", base)
    query = engine.prepare("SELECT p.id FROM people p JOIN people q ON p.id = q.id WHERE p.name < 'b'")
    assert asked == ["people"]
    assert query.execute().read_all().num_rows == 1
    lance.write_dataset(ROWS, root / "people.lance", mode="append")
    assert query.execute().read_all().num_rows == 4
