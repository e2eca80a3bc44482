"""Random queries answer the same with and without what their predicates exclude.

DataFusion itself answers them over tables without each row that the predicates exclude, which shows more
faults than regions do; the gateway shows those of what is around the predicates.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.plans.contexts import ContextOptions, Contexts
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from lance_gateway.planner.sql.tree.dialect import parse_query, write_sql
from lance_gateway.planner.sql.tree.predicates import find_predicates
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.scans.pruning.drawn_queries import KINDS, NAMES, VALUES, Queries, Tables
from tests.planner.scans.pruning.test_regions_by_time import WHOLE, run, write
from tests.support.judging.results import rows_of

TYPES = ("BIGINT", "INT", "TEXT", "DATE", "DOUBLE")
TABLES = {
    "bucketed": (NAMES[0], "bucket(id, 4)"),
    "named": (NAMES[1], "identity(t)"),
    "numbered": (NAMES[0], "identity(n)"),
    "begun": (NAMES[1], "truncate(t, 1)"),
    "tens": (NAMES[0], "truncate(id, 4)"),
    "monthly": (NAMES[1], 'year("D"), month("D")'),
    "several": (NAMES[0], "identity(s), identity(n)"),
    "floats": (NAMES[0], "identity(x)"),
    "whole": (NAMES[0], "unsharded"),
}
"""Columns, and what decides in which region a row is."""
VIEWS = {
    "recent": (NAMES[0], "SELECT * FROM tens WHERE d >= DATE '2026-01-01'"),
    "matched": (
        NAMES[1],
        'SELECT p.n, k, t, d AS "D", q.x FROM named AS p LEFT JOIN several AS q ON p.n = q.n',
    ),
    "united": (NAMES[0], "SELECT * FROM numbered UNION ALL SELECT * FROM begun"),
}
RELATIONS: Tables = {name: names for name, (names, _) in (TABLES | VIEWS).items()}
PRIVATE: Tables = {f'"{name}#1"': names for name, (names, _) in TABLES.items()}  # in texts for DataFusion


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    """An engine over tables whose rows lie in base tables, generations and logs."""
    catalog = Catalog.open(str(tmp_path_factory.mktemp("pruned")), writing=WriteOptions(hold_ms=0))
    opened = QueryEngine(catalog, partitions=1)
    rng = random.Random(5)
    for name, (names, regions) in TABLES.items():
        columns = ", ".join(map(" ".join, zip(names, TYPES, strict=True)))
        is_keyed = "id" in regions.replace("identity", "")
        key = ", PRIMARY KEY (id)" if is_keyed else ""
        write(opened, f"CREATE TABLE {name} ({columns}{key}) WITH (region_by = '{regions}')")
        for step in range(3):
            rows = [[rng.choice((*VALUES[kind] * 2, "NULL")) for kind in KINDS] for _ in range(8)]
            if is_keyed:
                rows = [[str(rng.randrange(12)), *others] for _, *others in rows]
            write(opened, f"INSERT INTO {name} VALUES ({'), ('.join(map(', '.join, rows))})")
            if step < 2:
                write(opened, f"FLUSH TABLE {name}")
            if step == 0:
                merge(LakeTable.at(catalog.table(name).storage.uri))
    for name, (_, sql) in VIEWS.items():
        write(opened, f"CREATE VIEW {name} AS {sql}")
    yield opened
    opened.close()


def count(rows: Sequence[tuple[Any, ...]]) -> Counter[str]:
    """Count equal rows, in which the two zeros are one: which comes first is not decided."""
    return Counter(str([one + 0.0 if isinstance(one, float) else one for one in row]) for row in rows)


def answer(sql: str, tables: Mapping[str, pa.Table], parameters: Sequence[pa.Scalar]) -> pa.Table:
    """Return what DataFusion answers."""
    context = Contexts(None).make(ContextOptions(1, sorts_whole=True))
    for name, table in tables.items():
        empty = pa.RecordBatch.from_pylist([], table.schema)
        context.register_record_batches(name, [table.to_batches() or [empty]])
    values = {str(number): one for number, one in enumerate(parameters, start=1)}
    try:
        return context.sql(sql, param_values=values or None).to_arrow_table()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics are no exceptions
        raise ValueError(sql) from error


@pytest.fixture(scope="module")
def tables(engine: QueryEngine) -> dict[str, pa.Table]:
    """Rows of the tables, by their private names."""
    return {f"{name}#1": engine.execute(f"SELECT * FROM {name}").read_all() for name in TABLES}


@pytest.mark.parametrize("seeds", [range(80), pytest.param(range(80, 20_000), marks=pytest.mark.soak)])
def test_rows_that_predicates_exclude_do_not_matter(tables: dict[str, pa.Table], seeds: range) -> None:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        drawn = Queries(seed, PRIVATE)
        root = parse_query(drawn.sql)
        assert root is not None
        sql, kept = write_sql(root), dict(tables)
        for name, places in find_predicates(root, {name: one.schema for name, one in tables.items()}).items():
            condition = " OR ".join(f"({' AND '.join(map(write_sql, one))})" for one in places)
            with suppress(ValueError):  # it excludes nothing
                needed = answer(f'SELECT * FROM "{name}" WHERE {condition}', tables, drawn.parameters)
                kept[name] = needed.cast(tables[name].schema)
        if all(kept[name].num_rows == table.num_rows for name, table in tables.items()):
            outcomes["all rows"] += 1
            continue
        try:
            whole = count(rows_of(answer(sql, tables, drawn.parameters)))
        except ValueError:
            outcomes["refused"] += 1
            continue
        found = count(rows_of(answer(sql, kept, drawn.parameters)))
        assert found == whole, f"{seed}: {sql} {drawn.parameters}"
    assert outcomes["refused"] < 0.2 * len(seeds)
    assert outcomes["all rows"] < 0.5 * len(seeds)


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 2000), marks=pytest.mark.soak)])
def test_regions_that_are_excluded_do_not_matter(engine: QueryEngine, seeds: range) -> None:
    refused = fewer = 0
    for seed in seeds:
        drawn = Queries(seed, RELATIONS)
        try:
            expected, regions = run(engine, drawn.sql, WHOLE, parameters=drawn.parameters)
        except Exception:  # noqa: BLE001 - that of a drawn query that is not valid
            refused += 1
            continue
        rows, kept = run(engine, drawn.sql, DEFAULT_SETTINGS, parameters=drawn.parameters)
        assert count(rows) == count(expected), f"{seed}: {drawn.sql} {drawn.parameters}"
        fewer += kept != regions
    assert refused < 0.2 * len(seeds)
    assert fewer > 0.1 * len(seeds)
