"""Instants that have no nanoseconds are compared and truncated like others. DuckDB judges."""

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from tests.support.judging.judged import Judged, open_judged

NOW, LAST, EARLY = (
    dt.datetime(2024, 5, 17, 3, 4, 5, 678901),
    dt.datetime(9999, 12, 31),
    dt.datetime(1500, 2, 3, 4),
)
WHOLE = [NOW.replace(microsecond=0), LAST, EARLY, None]
T = pa.table(
    {
        "id": [1, 2, 3, 4],
        "us": pa.array([NOW, LAST, EARLY, None], pa.timestamp("us")),
        "zoned": pa.array([NOW, LAST, EARLY, None], pa.timestamp("us", "UTC")),
        "ms": pa.array(WHOLE, pa.timestamp("ms")),
        "sec": pa.array(WHOLE, pa.timestamp("s")),
        "ns": pa.array([NOW, None, None, None], pa.timestamp("ns")),
        "day": pa.array([NOW.date(), LAST.date(), EARLY.date(), None]),
        "text": ["2024-05-17", "9999-12-31", "1500-02-03", None],
    }
)
CONDITIONS = [
    *(
        f"{column} {condition}"
        for column in ("us", "t.us", "zoned", "ms", "sec")
        for condition in (
            "= '9999-12-31'",
            "< '9999-12-31'",
            "BETWEEN '1500-01-01' AND '9999-12-31 00:00:00'",
            "NOT BETWEEN '2024-01-01' AND '9999-12-31'",
            "IN ('2024-05-17', '9999-12-31')",
            "NOT IN ('9999-12-31')",
            "IN (TIMESTAMP '9999-12-31', '2024-05-17')",
            "NOT IN (TIMESTAMP '2020-01-01', DATE '9999-12-31')",
            "IS DISTINCT FROM '9999-12-31'",
            "IS NOT DISTINCT FROM TIMESTAMP(6) '9999-12-31'",
        )
    ),
    "nullif(us, '9999-12-31') IS NULL",
    "CASE us WHEN '2024-05-17' THEN 2 WHEN '9999-12-31' THEN CASE id WHEN 2 THEN 1 END ELSE 0 END = 1",
    "CASE WHEN id = 2 THEN CASE t.us WHEN '9999-12-31' THEN TRUE END ELSE id = 1 END",
    "us = TIMESTAMP '9999-12-31'",
    "us < TIMESTAMP '1501-01-01 00:00:00'",
    "us = DATE '9999-12-31'",
    "us BETWEEN DATE '2024-01-01' AND DATE '9999-12-31'",
    "us = CAST('9999-12-31' AS TIMESTAMP)",
    "us = '9999-12-31'::timestamp",
    "zoned = TIMESTAMPTZ '9999-12-31 00:00:00+00'",
    "zoned = TIMESTAMP WITH TIME ZONE '9999-12-31 02:00:00+02'",
    "zoned = CAST('9999-12-31 00:00:00+00' AS TIMESTAMPTZ)",
    "zoned = CAST('9999-12-31 02:00:00+02' AS TIMESTAMP WITH TIME ZONE)",
    "zoned = '9999-12-31 00:00:00+00'::timestamptz AND ('1500-02-03'::timestamptz) < zoned",
    "'9999-12-31' > us",
    "DATE '9999-12-31' = us OR id = 1",
    "CASE WHEN us = '9999-12-31' THEN 1 ELSE 0 END = 1",
    "coalesce(us, ms) = '9999-12-31' AND date_trunc('month', coalesce(us, ms)) < DATE '9999-12-31'",
    "text = '9999-12-31'",
    "text IN ('9999-12-31')",
    "day = '9999-12-31'",
    "ns = '2024-05-17 03:04:05.678901'",
]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("late"), {"t": T}) as opened:
        opened.judge.execute("SET TimeZone = 'UTC'")
        yield opened


@pytest.mark.parametrize("condition", CONDITIONS)
def test_late_dates_are_compared_with_columns(judged: Judged, condition: str) -> None:
    judged.check(f"SELECT id FROM t WHERE {condition}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM (SELECT id, CAST(us AS VARCHAR) AS us FROM t) q WHERE us = '9999-12-31'",
        "SELECT id FROM (SELECT id, text us FROM t) q WHERE us = '9999-12-31'",
        "WITH c (id, us) AS (SELECT id, text FROM t) SELECT id FROM c WHERE us = '9999-12-31'",
        "SELECT q.id FROM (SELECT id, text FROM t) AS q (id, us) WHERE q.us = '9999-12-31'",
        "SELECT id FROM (SELECT us AS us, id FROM t) q WHERE us = '9999-12-31'",
        "WITH c AS (SELECT us, id FROM t WHERE us > '1400-01-01') SELECT id FROM c WHERE us = '9999-12-31'",
    ],
)
def test_names_that_a_statement_gives_are_what_it_says(judged: Judged, sql: str) -> None:
    judged.check(sql)


def test_names_of_views_are_what_they_say(judged: Judged) -> None:
    select = "SELECT id, text AS us FROM t"
    judged.engine.catalog.write_view("told", select, replaces=True)
    judged.judge.execute(f"CREATE OR REPLACE VIEW told AS {select}")
    judged.check("SELECT id FROM told WHERE us = '9999-12-31'")


@pytest.mark.parametrize("unit", ["hour", "day", "week", "month", "quarter", "year"])
@pytest.mark.parametrize("column", ["us", "t.zoned", "ms", "sec"])
def test_late_instants_are_truncated(judged: Judged, unit: str, column: str) -> None:
    for sql in (
        f"SELECT id, date_trunc('{unit}', {column}) AS d FROM t",
        f"SELECT date_trunc('{unit}', {column}) AS d, count(*) AS n FROM t GROUP BY 1",
    ):
        found = judged.engine.execute(sql).read_all()
        found = found.set_column(
            found.schema.names.index("d"), "d", found.column("d").cast(pa.timestamp("us"), safe=False)
        )
        expected = judged.judge.execute(sql.replace("zoned", "zoned::timestamp")).fetchall()
        rows = [tuple(row.values()) for row in found.to_pylist()]
        assert sorted(rows, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    ("interval", "origin"),
    [
        ("INTERVAL '15 minutes'", ""),
        ("INTERVAL '7' DAY", ", TIMESTAMP '2000-01-03'"),
        ("INTERVAL '1 week'", ", TIMESTAMP '2024-01-01T06:00:00'"),
    ],
)
@pytest.mark.parametrize("column", ["us", "t.ms", "sec", "zoned"])
def test_late_instants_are_put_into_bins(judged: Judged, column: str, interval: str, origin: str) -> None:
    sql = f"SELECT id, date_bin({interval}, {column}{origin}) AS d FROM t"
    found = judged.engine.execute(sql).read_all()
    start = origin or ", TIMESTAMP '1970-01-01'"
    judge = f"SELECT id, time_bucket({interval}, {column}::TIMESTAMP{start}) AS d FROM t"
    expected = judged.judge.sql(judge).to_arrow_table()
    column = found.schema.names.index("d")
    found = found.set_column(column, "d", found.column("d").cast(pa.timestamp("us"), safe=False))
    assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)
    assert judged.engine.prepare(sql.replace(" AS d", "")).schema.names[1].startswith("date_bin(")


@pytest.mark.parametrize(
    "year", ["EXTRACT(YEAR FROM ns)", "date_part('year', t.ns)", "extract(year from us)"]
)
@pytest.mark.parametrize(
    "condition",
    [
        *(
            f"{{}} {operator} {year}"
            for operator in ("<", "<=", ">", ">=", "<>", "=")
            for year in (9999, 1000, 2261)
        ),
        "9999 > {}",
        "{} > -5",
        "{} BETWEEN 1000 AND 9999",
        "{} NOT BETWEEN 2024 AND 9999",
        "NOT {} < 9999 OR {} < 3000",
    ],
)
def test_years_without_nanoseconds_are_compared(judged: Judged, year: str, condition: str) -> None:
    judged.check(f"SELECT id FROM t WHERE {condition.replace('{}', year)}")


def test_years_that_are_bound_are_compared(judged: Judged) -> None:
    query = judged.engine.prepare("SELECT id FROM t WHERE EXTRACT(YEAR FROM ns) < $1")
    found = query.execute([pa.scalar(9999)]).read_all()
    assert found.column("id").to_pylist() == [1]


def test_what_is_computed_may_stand_behind_a_constant(judged: Judged) -> None:
    judged.check("SELECT id FROM t WHERE TIMESTAMP(6) '2024-05-01' <= date_trunc('month', us) AND id < 3")
    judged.check(
        "SELECT t.id FROM t JOIN t u ON 9999 > EXTRACT(YEAR FROM u.ns) AND 1 < t.id WHERE t.id = u.id + 1"
    )


def test_truncated_columns_keep_type_and_name(judged: Judged) -> None:
    sql = "SELECT date_trunc('month', us), date_trunc('month', ms), date_trunc('month', zoned) FROM t"
    schema = judged.engine.prepare(sql).schema
    assert schema.names == [f'date_trunc(Utf8("month"),t.{column})' for column in ("us", "ms", "zoned")]
    assert schema.types == [pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("us", "UTC")]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST(arrow_cast(us, 'Utf8') AS TIMESTAMP) FROM t",
        "SELECT CAST(text AS TIMESTAMP) FROM t",
    ],
)
def test_nanoseconds_that_are_not_there_are_refused_with_the_way_out(judged: Judged, sql: str) -> None:
    with pytest.raises(InvalidInputError, match=r"give them microseconds, as in CAST\(x AS TIMESTAMP\(6\)\)"):
        judged.engine.execute(sql).read_all()
    assert judged.engine.execute(sql.replace("TIMESTAMP", "TIMESTAMP(6)")).read_all().num_rows == 4


def test_casts_of_coarser_times_have_microseconds(judged: Judged) -> None:
    sql = "SELECT CAST(us AS TIMESTAMP) AS t FROM t WHERE us IS NOT NULL"
    assert (
        judged.engine.execute(sql)
        .read_all()
        .equals(judged.engine.execute(sql.replace("TIMESTAMP", "TIMESTAMP(6)")).read_all())
    )


@pytest.mark.parametrize(
    ("digits", "unit"),
    [(0, "s"), (1, "ms"), (2, "ms"), (3, "ms"), (4, "us"), (5, "us"), (7, "ns"), (8, "ns")],
)
def test_precisions_have_the_next_finer_unit(judged: Judged, digits: int, unit: str) -> None:
    text = "2024-05-17 03:04:05" if digits == 0 else f"2024-05-17 03:04:05.{'123456789'[:digits]}"
    for sql in (
        f"SELECT CAST('{text}' AS TIMESTAMP({digits})) AS t",
        f"SELECT '{text}'::TIMESTAMP({digits}) AS t",
    ):
        table = judged.engine.execute(sql).read_all()
        assert table.schema.types == [pa.timestamp(unit)]
        assert str(table.column("t").cast(pa.timestamp("ns"))[0]).rstrip("0").startswith(text.rstrip("0"))
