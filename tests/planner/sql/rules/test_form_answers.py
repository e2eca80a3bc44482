"""Forms that DataFusion lacks or mistakes are answered as PostgreSQL and DuckDB answer them."""

from collections.abc import Iterator
from datetime import datetime, time
from decimal import Decimal

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.rules import IS_UUID
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.engine import PreparedQuery, QueryEngine, SessionSettings
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

UUIDS = ("550e8400-e29b-41d4-a716-446655440000", "a50e8400-e29b-41d4-a716-446655440000")
CAPITALS = UUIDS[0].upper()
IS_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
KEYED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={IS_UUID: b"true", **IS_KEY}),
        pa.field("ref", pa.string(), metadata={IS_UUID: b"true"}),
        pa.field("n", pa.int64()),
    ]
)
ITEM = pa.struct([("sku", pa.string()), ("n", pa.int64())])
TABLE = pa.Table.from_pylist(
    [
        {
            "id": 1,
            "v": 1,
            "i": 10,
            "tm": time(10),
            "b": b"\x01",
            "ts": datetime(2024, 1, 31),
            "st": {"x": 1, "y": {"z": "q"}},
            "items": [{"sku": "A", "n": 1}, {"sku": "B", "n": 2}],
            "item": "one",
            "large": b"a",
            "fixed": b"ab",
        },
        {"id": 2, "v": 1, "tm": time(10), "b": b"\xff", "ts": datetime(2024, 2, 29), "item": "two"},
        {"id": 3, "v": 2, "i": 30, "tm": time(11), "b": b"\x01\x02", "items": []},
        {"id": 4, "v": None, "i": 5},
    ],
    pa.schema(
        [
            ("id", pa.int64()),
            ("v", pa.int64()),
            ("i", pa.int64()),
            ("tm", pa.time64("us")),
            ("b", pa.binary()),
            ("ts", pa.timestamp("us")),
            ("st", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
            ("items", pa.list_(ITEM)),
            ("item", pa.string()),
            ("large", pa.large_binary()),
            ("fixed", pa.binary(2)),
        ]
    ),
)
STATEMENTS = (
    "SELECT a.v FROM t AS a GROUP BY v, a.v",
    "SELECT a.v, count(*) FROM t AS a GROUP BY a.v, v",
    "SELECT a.v + 1 AS x, count(*) FROM t AS a GROUP BY v + 1, a.v + 1",
    "SELECT a.v, b.v FROM t AS a JOIN t AS b ON a.id = b.v GROUP BY a.v, b.v",
    "SELECT id, rank() OVER (ORDER BY tm), count(*) OVER (ORDER BY tm) FROM t",
    "SELECT id, count(*) OVER (PARTITION BY v ORDER BY tm DESC), dense_rank() OVER (ORDER BY b) FROM t",
    "SELECT id, lag(i, 1, v) OVER (ORDER BY id), lead(i, 2, -id) OVER (PARTITION BY v ORDER BY id) FROM t",
    "SELECT id, lag(i, 1, i + 1) OVER (ORDER BY id), lag(i, 1, 0) OVER (ORDER BY id) FROM t",
    "SELECT id, ts + INTERVAL '1 day' * v, ts - id * INTERVAL '1 month' FROM t",
    "SELECT id, ts + INTERVAL '1 day' * 1.5, ts + 3 * INTERVAL '90 minutes' FROM t",
    "SELECT id, (st).x, (t.st).y.z FROM t",
    "SELECT id FROM t WHERE (st).x = 1 AND ((st).y).z = 'q'",
    "SELECT id, coalesce(ts, '2024-07-01 12:00:00.5'), ifnull(tm, '10:30:00') FROM t",
    "SELECT id, coalesce(CAST(ts AS DATE), '2024-07-01'), greatest('2024-02-01', ts) FROM t",
    "SELECT id, coalesce('true', i > 9), CASE WHEN ts IS NULL THEN '2024-07-01' ELSE ts END FROM t",
    "SELECT id, coalesce(large, b), coalesce(fixed, large, 'x'), coalesce(fixed, b) FROM t",
    "SELECT id FROM t WHERE fixed IN (large, 'ab') UNION ALL SELECT 0 FROM t WHERE large <> fixed",
    "SELECT large FROM t UNION SELECT fixed FROM t",
    "SELECT id, ifnull(ts, ts), ifnull(b, b), ifnull(items, items), ifnull(i::DECIMAL(19, 2), 0) FROM t",
    "SELECT id, lpad(item, (id - 2)::INT, 'x'), rpad('a', i::INT, 'x') FROM t",
    "SELECT id, ceil((i - 0.01)::DECIMAL(4, 2)), floor(-99.99::DECIMAL(4, 2)) FROM t WHERE id <> 3",
    "SELECT ceil(99999999.99::DECIMAL(10, 2)) FROM t",
    "SELECT (SELECT (q.st).x FROM t AS q WHERE q.id = 1) AS x",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    root = tmp_path_factory.mktemp("forms")
    rows = [{"id": UUIDS[0], "ref": UUIDS[1], "n": 1}, {"id": UUIDS[1], "ref": None, "n": 2}]
    keyed = lance.write_dataset(pa.Table.from_pylist(rows, KEYED), root / "u.lance")
    keyed.initialize_mem_wal()
    with open_judged(root, {"t": TABLE}) as opened:
        yield opened


def ask(engine: QueryEngine, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    return rows_of(engine.prepare(sql).execute([pa.scalar(one) for one in parameters]).read_all())


@pytest.mark.parametrize("sql", STATEMENTS)
def test_statements(sql: str, judged: Judged) -> None:
    judged.check(sql)


def test_fields_of_elements_of_a_list(judged: Judged) -> None:
    engine = judged.engine
    joined = "FROM t CROSS JOIN UNNEST(t.items) AS entry"
    assert ask(engine, f"SELECT id, entry.sku {joined} ORDER BY 2") == [(1, "A"), (1, "B")]
    assert ask(engine, f"SELECT entry.sku {joined} WHERE entry.n > 1 AND t.item = 'one'") == [("B",)]
    assert ask(engine, f"SELECT sum(entry.n) AS n {joined} GROUP BY entry.sku ORDER BY 1") == [(1,), (2,)]


def test_nvl_keeps_types(judged: Judged) -> None:
    found = ask(judged.engine, "SELECT nvl(ts, ts), nvl2(i, tm, NULL), nvl2(i, NULL, b) FROM t WHERE id = 2")
    assert found == [(datetime(2024, 2, 29), None, b"\xff")]


def test_fields_have_their_names(judged: Judged) -> None:
    assert judged.engine.execute("SELECT (st).x, (st).y.z AS w FROM t").schema.names == ["x", "w"]


@pytest.mark.parametrize(
    "condition",
    [
        f"id = '{CAPITALS}'",
        f"u.id IN ('{CAPITALS}', 'x')",
        f"ref = '{UUIDS[1].upper()}'",
        f"CASE id WHEN '{CAPITALS}' THEN true END",
        f"id NOT IN ('{UUIDS[1].upper()}')",
        f"nullif(id, '{CAPITALS}') IS NULL",
    ],
)
def test_a_uuid_in_capitals_finds_its_row(condition: str, judged: Judged) -> None:
    assert ask(judged.engine, f"SELECT n FROM u WHERE {condition}") == [(1,)]


def test_uuids_in_capitals_are_beside_those_of_groups_and_windows(judged: Judged) -> None:
    found = f"first_value(id ORDER BY n) = '{CAPITALS}', max(id) FILTER (WHERE n = 1) = '{CAPITALS}'"
    groups = f"GROUP BY n HAVING min(id) = '{CAPITALS}' QUALIFY max(min(id)) OVER () = '{CAPITALS}'"
    assert ask(judged.engine, f"SELECT {found} FROM u {groups}") == [(True, True)]


def test_a_parameter_may_be_a_uuid_in_capitals(judged: Judged) -> None:
    engine = judged.engine
    assert ask(engine, "SELECT n FROM u WHERE id = ?", CAPITALS) == [(1,)]
    assert ask(engine, "SELECT n FROM u WHERE id IN (?, ?) AND n > 0", CAPITALS, "x") == [(1,)]
    assert ask(engine, "SELECT n FROM u WHERE ref = ?", UUIDS[1].upper()) == [(1,)]
    update = engine.prepare_statement(
        f"UPDATE u SET n = 1 WHERE id = '{CAPITALS}'", SessionSettings(), FULL_ACCESS
    )
    assert update.execute().affected == 1


@pytest.mark.parametrize(
    ("condition", "value", "ids"),
    [
        ("nullif(v = 1, $1)", False, [(1,), (2,)]),
        ("nullif(v = 1, $1) <> TRUE", True, [(3,)]),
        ("least(v = 1, $1)", True, [(1,), (2,), (4,)]),
        ("CASE WHEN v IS NULL THEN $1 ELSE v = 2 END", True, [(3,), (4,)]),
        ("CASE v = 1 WHEN $1 THEN true END", False, [(3,)]),
        ("(v = 1) = ANY (ARRAY[$1, FALSE])", False, [(3,)]),
        ("coalesce(tm, $1) = TIME '10:00'", time(10), [(1,), (2,), (4,)]),
        ("coalesce(b, $1) = X'01'", b"\x01", [(1,), (4,)]),
        ("coalesce(fixed, $1) = X'01'", b"\x01", [(2,), (3,), (4,)]),
        ("coalesce(ts, $1) > '2024-02-01'", "2024-07-01 12:00", [(2,), (3,), (4,)]),
        ("(SELECT count(*) FROM t AS q WHERE coalesce(q.v = 2, $1)) = t.v", True, [(3,)]),
    ],
)
def test_a_parameter_has_the_type_of_what_is_beside_it(
    condition: str, value: object, ids: list[tuple[int]], judged: Judged
) -> None:
    assert ask(judged.engine, f"SELECT id FROM t WHERE {condition} ORDER BY id", value) == ids


@pytest.mark.parametrize(
    ("branch", "value", "kind"),
    [
        ("CAST('1.10' AS DECIMAL(10, 2))", Decimal("1.5"), "decimal128(10, 2)"),
        ("i + 1", 5, "int64"),
        ("nvl(CAST(i AS DECIMAL(10, 2)), 1)", Decimal("1.5"), "decimal128(22, 2)"),
        ("i", 1.5, "double"),
        ("items", [], "list<item: struct<sku: string, n: int64>>"),
    ],
)
def test_a_parameter_may_be_united_with_values(branch: str, value: object, kind: str, judged: Judged) -> None:
    sql = f"SELECT id, {branch} AS x FROM t UNION ALL SELECT 9, $1 ORDER BY id"
    scalar = pa.scalar(value, TABLE.schema.field("items").type if branch == "items" else None)
    prepared = judged.engine.prepare_statement(sql, bound=[scalar.type])
    assert isinstance(prepared, PreparedQuery)
    rows = prepared.execute([scalar]).read_all()
    assert (str(rows.schema.field("x").type), rows["x"].to_pylist()[-1]) == (kind, value)


@pytest.mark.parametrize(
    "condition",
    [
        "trim(BOTH 'o' FROM item) = 'ne'",
        "overlay(item PLACING 'x' FROM 1 FOR 1) = 'xne'",
        "MAP {'a': i}['a'] = 10",
        "`item` = 'one'",
        "CAST([i, 1] AS FLOAT[2])[1] = 10",
        "arrow_typeof(CAST(i AS FLOAT)) = 'Float32' AND i = 10",
    ],
)
def test_rules_apply_beside_other_syntax(condition: str, judged: Judged) -> None:
    exact = "CAST('4.44' AS DECIMAL(10, 2)) = 4.44"
    assert ask(judged.engine, f"SELECT id FROM t WHERE {condition} AND {exact}") == [(1,)]
