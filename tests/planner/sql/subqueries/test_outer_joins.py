"""Correlated subqueries with outer joins: a condition of the join is not one of the rows of the subquery."""

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

INTEGERS = pa.int64()
TABLES = {
    "o": pa.table({"k": pa.array([1, 5, None, 2], INTEGERS)}),
    "a": pa.table({"id": pa.array([1, 2, 3], INTEGERS)}),
    "b": pa.table({"id": pa.array([1, 2, 2, 7, None], INTEGERS), "y": pa.array([1, 2, 5, 1, 5], INTEGERS)}),
}
KEY = pa.schema([pa.field("k", INTEGERS, nullable=False), pa.field("n", INTEGERS)])
COUNT = "(SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id AND b.y = {table}.k)"
ROWS = "SELECT a.id FROM a LEFT JOIN (SELECT * FROM b WHERE b.y = c.k) AS b ON a.id = b.id"
STATEMENTS = (Path(__file__).parent / "data" / "outer_joins.sql").read_text().split("\n\n")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    root = tmp_path_factory.mktemp("outer")
    keyed = pa.Table.from_pydict({"k": [1, 5], "n": [0, 0]}, KEY)
    lance.write_dataset(keyed, root / "c.lance").initialize_mem_wal()
    with open_judged(root, TABLES) as opened:
        yield opened


def change(engine: QueryEngine, sql: str) -> int:
    return engine.prepare_statement(sql, SessionSettings(), FULL_ACCESS).execute().affected


@pytest.mark.parametrize("sql", STATEMENTS)
def test_statements(sql: str, judged: Judged) -> None:
    judged.check(sql)


def test_changes_of_rows(judged: Judged) -> None:
    engine = judged.engine
    assert change(engine, f"DELETE FROM c WHERE NOT EXISTS ({ROWS})") == 0
    assert change(engine, f"DELETE FROM c WHERE k NOT IN ({ROWS}) AND k < 5") == 0
    assert change(engine, f"UPDATE c SET n = {COUNT.format(table='c')}") == 2
    assert rows_of(engine.execute("SELECT n FROM c").read_all()) == [(3,), (3,)]


def test_views(judged: Judged) -> None:
    """The query of a view is joined where it is read, and its columns keep their names."""
    engine = judged.engine
    change(engine, f"CREATE VIEW v AS SELECT o.k, {COUNT.format(table='o')} FROM o")
    change(engine, 'CREATE VIEW w AS SELECT k, "count(*)" AS n FROM v')
    found = engine.execute("SELECT * FROM v WHERE k = 5").read_all()
    assert (found.column_names, rows_of(found)) == (["k", "count(*)"], [(5, 3)])
    assert rows_of(engine.execute("SELECT sum(n) FROM w").read_all()) == [(12,)]


def test_a_view_with_a_star_names_its_subqueries(judged: Judged) -> None:
    engine = judged.engine
    change(engine, f"CREATE VIEW x AS SELECT *, {COUNT.format(table='o')} AS n FROM o")
    assert rows_of(engine.execute("SELECT n FROM x WHERE k = 5").read_all()) == [(3,)]
