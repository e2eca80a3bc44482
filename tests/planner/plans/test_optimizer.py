"""What DataFusion's optimizer would get wrong, or refuse, is kept from it."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, NO_SHORTCUTS, SessionSettings, Shortcuts
from tests.support.judging.results import rows_of


@pytest.fixture
def engine(root: Path, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    names = ["d", "b", None, "a", "c", "b", "e"]
    lance.write_dataset(pa.table({"id": range(7), "s": names}), str(root / "t.lance"))
    return open_engine(root)


@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, NO_SHORTCUTS], ids=["all", "none"])
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT 0 AS zero, s FROM t GROUP BY s ORDER BY zero, s",
            [(0, "a"), (0, "b"), (0, "c"), (0, "d"), (0, "e"), (0, None)],
        ),
        ("SELECT 1 AS one, s FROM t GROUP BY s ORDER BY one, s DESC LIMIT 2", [(1, None), (1, "e")]),
        (
            "SELECT count(*) % 1 AS n, max(s) AS most, s FROM t GROUP BY s ORDER BY n, s LIMIT 3",
            [(0, "a", "a"), (0, "b", "b"), (0, "c", "c")],
        ),
        ("SELECT count(DISTINCT 'x') AS n FROM t WHERE id < 0", [(0,)]),
        ("SELECT count(DISTINCT 'x') AS n, max(id) AS most FROM t WHERE id < 0", [(0, None)]),
        ("SELECT count(DISTINCT 'x') AS n FROM t", [(1,)]),
        ("SELECT max(id) AS n FROM t WHERE id < 0 GROUP BY 'a' || 'b'", []),
        ("SELECT count(*) AS n FROM t GROUP BY 1 + 1", [(7,)]),
        ("SELECT 2 AS n, id FROM t UNION ALL SELECT 1, id FROM t ORDER BY n, id LIMIT 1", [(1, 0)]),
        (
            "SELECT * FROM (SELECT 2 AS n, s FROM t UNION ALL SELECT 1, s FROM t) ORDER BY n, s DESC LIMIT 3",
            [(1, None), (1, "e"), (1, "d")],
        ),
        ("SELECT DISTINCT (s = 'b') IS TRUE AS is_b FROM t ORDER BY is_b", [(False,), (True,)]),
    ],
)
def test_orders_and_groups_with_constants(
    engine: QueryEngine, sql: str, rows: list[tuple[object, ...]], shortcuts: Shortcuts
) -> None:
    assert rows_of(engine.execute(sql, SessionSettings(shortcuts=shortcuts)).read_all()) == rows


@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, NO_SHORTCUTS], ids=["all", "none"])
def test_instants_are_compared_as_instants_in_every_zone(
    root: Path, open_engine: Callable[[Path], QueryEngine], shortcuts: Shortcuts
) -> None:
    noon = dt.datetime(2025, 1, 1, 12, tzinfo=dt.UTC)
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=30)
    stored = pa.array([noon, soon], pa.timestamp("us", "Europe/Berlin"))
    lance.write_dataset(pa.table({"id": [1, 2], "ts": stored}), str(root / "berlin.lance"))
    engine = open_engine(root)

    def ids(condition: str) -> list[int]:
        query = engine.prepare(
            f"SELECT id FROM berlin WHERE {condition}", SessionSettings(shortcuts=shortcuts)
        )
        return query.execute().read_all()["id"].to_pylist()

    assert ids("ts = TIMESTAMPTZ '2025-01-01 12:00:00+00:00'") == [1]
    assert ids("ts = TIMESTAMPTZ '2025-01-01 13:00:00+01:00'") == [1]
    assert ids("ts > now()") == [2]
    assert ids("ts > now() + INTERVAL '31 minutes'") == []
