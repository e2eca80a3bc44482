"""Every transform against every condition: a region that holds a matching row is never excluded."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from lance_gateway.memwal.transforms.transforms import compute_region_values
from lance_gateway.planner.predicates.pruning import RegionAssignment
from tests.planner.region_cases import FIELD_IDS, SCHEMA, read_spec, region_of
from tests.planner.scans.pruning.planned import REFERENCE, make_context, prune, read_predicates
from tests.planner.titled import read_titled
from tests.support.sampling import sample

SPECS = [
    "identity(id) int64",
    "identity(s) utf8",
    "identity(f) float64",
    "identity(d) date32",
    "identity(ts) timestamp[us]",
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
    "[date_trunc('month', col0)](d) timestamp[ns]",
    "bucket(id; num_buckets=4) int32, year(ts) int32",
]
_ZONED = ("TIMESTAMP WITH TIME ZONE", "Z")
TIMES = {"ts": ("TIMESTAMP", ""), "utc": _ZONED, "berlin": _ZONED}
"""Columns of instants -> the type and the end of their literals."""
_PLAIN, _TIMED = (case.parts[0].split("\n") for case in read_titled("region_conditions.txt"))
AT, MONTH = "2026-03-29 01:30:00", "2026-03-01 00:00:00"
CONDITIONS = [
    *_PLAIN,
    *(
        one.format(column=column, at=f"{kind} '{AT}{end}'", month=f"{kind} '{MONTH}{end}'")
        for column, (kind, end) in TIMES.items()
        for one in _TIMED
    ),
]
SEEDS = range(2)


DAYS = "2026-03-01 2026-03-29 2026-02-28 2024-02-29 2025-12-31 1969-12-31 1970-01-01 2026-10-25 2026-01-31"
CLOCKS = "00:00 23:59:59.999999 01:30 12:00 22:30 02:00:00.000001"
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "abcdef",
    "ABC",
    "aB",
    "b",
    "k",
    "\u212a",
    "é",
    "abé",
    "É",
    "a%",
    "ac",
    "abb",
]


def _draw(rng: random.Random) -> pa.Table:
    days = [dt.date.fromisoformat(one) for one in DAYS.split()]
    clocks = [dt.time.fromisoformat(one) for one in CLOCKS.split()]

    def instant() -> dt.datetime:
        return dt.datetime.combine(rng.choice(days), rng.choice(clocks))

    def row() -> dict[str, object]:
        drawn: dict[str, object] = {
            "id": rng.choice([0, 1, 2, 3, 5, 6, 7, -7, -1, -3, 10, 12, 19, 20, -10, -12, 23]),
            "s": rng.choice(TEXTS),
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


def _regions(spec_text: str, rows: pa.Table) -> Iterator[tuple[pa.Scalar, ...]]:
    """The region values of each row."""
    columns = {at: rows.column(name).combine_chunks() for name, at in FIELD_IDS.items()}
    return zip(*map(list, compute_region_values(read_spec(spec_text), columns)), strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("spec_text", sample(SPECS, 12))
def test_regions_with_matching_rows_are_kept(spec_text: str, rows: pa.Table, matching: dict[str, list[int]]):
    spec = read_spec(spec_text)
    homes: dict[str, RegionAssignment] = {}
    of_row = []
    for values in _regions(spec_text, rows):
        name = ", ".join(repr(value.as_py()) for value in values)
        homes.setdefault(name, region_of(spec, values, name))
        of_row.append(name)
    for condition in CONDITIONS:
        kept = prune(read_predicates(condition), spec, list(homes.values())).kept
        lost = {of_row[number] for number in matching[condition]} - set(kept)
        assert not lost, f"{condition} excludes {lost}"
