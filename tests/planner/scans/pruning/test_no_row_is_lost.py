"""Every transform against every condition: a region that holds a matching row is never excluded."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from memwal.transforms.transforms import compute_region_values
from tests.planner.region_cases import FIELD_IDS, SCHEMA, read_spec, region_of
from tests.planner.scans.pruning.planned import REFERENCE, make_context, prune, read_conditions

SPECS = [
    "identity(id) int64",
    "identity(s) utf8",
    "identity(f) float64",
    "identity(d) date32",
    "identity(ts) timestamp(us,-)",
    "identity(b) boolean",
    "identity(small) int32, identity(s) utf8",
    "year(ts) int32",
    "year(d) int32",
    "year(utc) int32",
    "year(berlin) int32",
    "month(ts) int32",
    "day(d) int32",
    "hour(utc) int32",
    "year(ts) int32, month(ts) int32",
    "year(utc) int32, month(utc) int32, day(utc) int32, hour(utc) int32",
    "year(berlin) int32, month(berlin) int32, day(berlin) int32, hour(berlin) int32",
    "year(d) int32, month(d) int32, day(d) int32",
    "truncate(id; width=10) int64",
    "truncate(small; width=7) int32",
    "truncate(s; width=1) utf8",
    "truncate(s; width=3) utf8",
    "[col0 % 4](id) int64",
    "[col0 % 4](small) int64",
    "[lower(col0)](s) utf8",
    "[col0 + col1](id, small) int64",
    "[date_trunc('month', col0)](d) timestamp(ns,-)",
    "bucket(id; num_buckets=4) int32, year(ts) int32",
]
TIMES = {
    "ts": "TIMESTAMP",
    "utc": "TIMESTAMP WITH TIME ZONE",
    "berlin": "TIMESTAMP WITH TIME ZONE",
}
CONDITIONS = [
    "id = 3", "id IN (3, 12, -7)", "id % 4 = 2", "id % 4 IN (1, -3)", "id % 4 <> 0", "NOT id % 4 = 2", "abs(id) = 7",
    "id + 1 > 12", "id - 3 <= -10", "id / 2 = 5", "id / 10 >= 1", "-id > 5", "id * 2 = 24", "3 - id = 0",
    "small % 4 = 2", "small + id = 6", "small / 7 = 1", "CAST(small AS BIGINT) + 1 = 8", "floor(small / 2.0) = 3",
    "id IS NULL", "id IS NOT NULL", "(id % 4) IS NULL", "id IS NOT NULL AND id % 4 = 1", "coalesce(id, 3) = 3",
    "s LIKE 'ab%'", "s LIKE 'a_c%'", "s NOT LIKE 'ab%'", "s ILIKE 'aB%'", "s LIKE '%c'", "s LIKE ''", "s LIKE 'abc'",
    "s LIKE 'é%'", "s LIKE 'a\\%%'", "s ~ '^ab'", "starts_with(s, 'a')", "left(s, 3) = 'abc'",
    "left(s, 1) IN ('a', 'b')", "substr(s, 1, 3) = 'abd'", "substr(s, 2, 3) = 'bcd'", "left(s, 2) < 'b'",
    "lower(s) = 'abc'", "lower(s) <> 'abc'", "lower(s) IN ('abc', 'k')", "lower(s) LIKE 'ab%'", "lower(s) = 'é'",
    "upper(s) = 'ABC'", "s >= 'abc' OR id % 4 = 1", "s < 'abc' AND id % 2 = 0", "lower(s) IS NULL", "s || 'x' = 'abcx'",
    "NOT (lower(s) = 'abc')", "length(s) = 3", "s = ''", "s IN ('', 'abc') OR s IS NULL", "lower(s) >= 'abc'",
    "b", "NOT b", "b IS NOT TRUE", "b IS NULL", "b IS TRUE OR id % 4 = 2", "f = 0", "f > 0 OR id % 4 = 1", "f + 1 >= 1",
    "f <= 0 OR abs(id) = 1", "floor(f) = 1", "f <> 0 OR b", "isnan(f)",
    "CASE WHEN id > 3 THEN s = 'abc' ELSE small = 7 END", "(id % 4 = 2) IS NOT TRUE", "(id % 4 = 2) = b",
    "random() < 0.5 AND id % 4 = 2", "id BETWEEN 1 AND 5 OR s LIKE 'k%'", "abs(id) BETWEEN 1 AND 5",
    "extract(year FROM d) = 2026", "extract(month FROM d) IN (1, 3)", "date_trunc('month', d) = DATE '2026-03-01'",
    "d + INTERVAL '1 day' > DATE '2026-03-02'", "d + INTERVAL '1 month' >= DATE '2026-02-28'", "d - 1 = DATE '2026-02-28'",
    "date_trunc('year', d) IN (DATE '2024-01-01', DATE '1970-01-01')", "d < DATE '1970-01-01' OR id % 4 = 1",
    "extract(dow FROM d) = 0", "extract(day FROM d) >= 30", "to_char(d, '%Y') = '2026'",
]  # fmt: skip
for column, kind in TIMES.items():
    at = f"{kind} '2026-03-29 01:30:00'" if kind == "TIMESTAMP" else f"{kind} '2026-03-29 01:30:00Z'"
    month = f"{kind} '2026-03-01'" if kind == "TIMESTAMP" else f"{kind} '2026-03-01 00:00:00Z'"
    CONDITIONS += [
        f"extract(year FROM {column}) = 2026", f"extract(year FROM {column}) BETWEEN 1969 AND 2024",
        f"extract(month FROM {column}) = 3", f"extract(day FROM {column}) > 28", f"extract(hour FROM {column}) IN (1, 23)",
        f"extract(epoch FROM {column}) < 0", f"NOT (extract(month FROM {column}) = 3)", f"extract(week FROM {column}) = 9",
        f"date_trunc('month', {column}) = {month}", f"date_trunc('hour', {column}) >= {month}",
        f"date_trunc('day', {column}) IN ({month}, {at})", f"date_trunc('year', {column}) < {month}",
        f"CAST({column} AS DATE) = DATE '2026-03-29'", f"CAST({column} AS DATE) BETWEEN DATE '2026-03-01' AND DATE '2026-03-31'",
        f"CAST({column} AS DATE) <> DATE '2026-03-29'", f"CAST({column} AS DATE) IS NULL", f"{column} >= {at} OR id % 4 = 1",
        f"{column} + INTERVAL '1 day' > {at}", f"{column} - INTERVAL '1 month' > {at}", f"{column} + INTERVAL '90 minutes' <= {at}",
        f"{column} >= now() - INTERVAL '1 day' OR id % 4 = 2", f"CAST({column} AS TIMESTAMP(0)) = {at}",
        f"CAST({column} AS TIME) < TIME '12:00:00'", f"CAST({column} AS TEXT) LIKE '2026-03%'", f"{column} > {at} AND {column} <= now()",
        f"date_trunc('month', {column} + INTERVAL '12 hours') = {month}", f"(date_trunc('month', {column}) = {month}) IS NOT TRUE",
        f"date_part('year', date_trunc('month', {column})) = 2026", f"date_bin(INTERVAL '7 days', {column}) = {at}",
        f"extract(year FROM {column}) = 2026 AND extract(month FROM {column}) = 3",
        f"CAST(CAST({column} AS DATE) AS TEXT) < '2'", f"CAST({column} AS DATE) = d", f"{column} = {at}",
    ]  # fmt: skip
SEEDS = range(3)


def _draw(rng: random.Random) -> pa.Table:
    days = [dt.date(2026, 3, 1), dt.date(2026, 3, 29), dt.date(2026, 2, 28), dt.date(2024, 2, 29), dt.date(2025, 12, 31)]
    days += [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 10, 25), dt.date(2026, 1, 30), dt.date(2026, 1, 31)]
    clocks = [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(1, 30), dt.time(12), dt.time(22, 30), dt.time(2, 0, 0, 1)]

    def instant() -> dt.datetime:
        return dt.datetime.combine(rng.choice(days), rng.choice(clocks))

    def row() -> dict[str, object]:
        drawn: dict[str, object] = {
            "id": rng.choice([0, 1, 2, 3, 5, 6, 7, -7, -1, -3, 10, 12, 19, 20, -10, -12, 23]),
            "s": rng.choice(["", "a", "ab", "abc", "abd", "abcdef", "ABC", "aB", "b", "k", "\u212a", "é", "abé", "É", "a%", "ac", "abb"]),
            "small": rng.choice([0, 1, 6, 7, 8, 13, 14, -6, -7, -8, 2]),
            "f": rng.choice([0.0, -0.0, 1.0, 1.5, -2.0, float("nan"), float("inf")]),
            "d": rng.choice(days),
            "ts": instant(),
            "b": rng.choice([True, False]),
            "word": "w",
            "utc": instant().replace(tzinfo=dt.UTC),
            "berlin": instant().replace(tzinfo=ZoneInfo("Europe/Berlin")),
        }
        return {name: None if rng.random() < 0.08 else value for name, value in drawn.items()}

    return pa.Table.from_pylist([row() for _ in range(400)], schema=SCHEMA)


@pytest.fixture(scope="module", params=SEEDS)
def rows(request: pytest.FixtureRequest) -> pa.Table:
    return _draw(random.Random(request.param))


@pytest.fixture(scope="module")
def matching(rows: pa.Table) -> dict[str, list[int]]:
    """The numbers of the rows that each condition holds for; a condition that fails has none."""
    numbered = rows.append_column("number", pa.array(range(rows.num_rows)))
    context = make_context(rows)
    context.deregister_table(REFERENCE)
    context.register_record_batches(REFERENCE, [numbered.to_batches()])
    found = {}
    for condition in CONDITIONS:
        try:
            table = context.sql(f'SELECT number FROM "{REFERENCE}" WHERE {condition}').to_arrow_table()
        except Exception as error:
            raise AssertionError(condition) from error
        found[condition] = table.column(0).to_pylist()
    return found


def _regions(spec_text: str, rows: pa.Table) -> Iterator[tuple]:
    spec = read_spec(spec_text)
    columns = {at: rows.column(name).combine_chunks() for name, at in FIELD_IDS.items()}
    return zip(*(values.to_pylist() and list(values) for values in compute_region_values(spec, columns)), strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("spec_text", SPECS)
def test_regions_with_matching_rows_are_kept(spec_text: str, rows: pa.Table, matching: dict[str, list[int]]):
    spec = read_spec(spec_text)
    homes: dict[str, object] = {}
    of_row = []
    for values in _regions(spec_text, rows):
        name = ", ".join(repr(value.as_py()) for value in values)
        homes.setdefault(name, region_of(spec, values, name))
        of_row.append(name)
    for condition in CONDITIONS:
        kept = prune(read_conditions(condition), spec, list(homes.values())).kept
        lost = {of_row[number] for number in matching[condition]} - set(kept)
        assert not lost, f"{condition} excludes {lost}"
