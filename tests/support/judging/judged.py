"""An engine over small tables, and DuckDB over the same rows, which judges its answers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.plans.leaves.resident_tables import RESIDENT_ROWS
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of


@dataclass(frozen=True)
class Judged:
    """Both of them."""

    engine: QueryEngine
    judge: duckdb.DuckDBPyConnection

    def check(self, sql: str, *, is_sorted: bool = False) -> None:
        """The engine answers as DuckDB does, in the same order if the statement sorts."""
        found: list[Any] = rows_of(self.engine.execute(sql).read_all())
        expected: list[Any] = self.judge.execute(sql).fetchall()
        if not is_sorted:
            found, expected = sorted(found, key=repr), sorted(expected, key=repr)
        assert found == expected, sql


@contextmanager
def open_judged(
    root: Path, tables: Mapping[str, pa.Table], *, resident_rows: int = RESIDENT_ROWS
) -> Iterator[Judged]:
    """Write tables below a root, and open both over them."""
    for name, rows in tables.items():
        lance.write_dataset(rows, root / f"{name}.lance")
    engine = QueryEngine(Catalog.open(str(root)), partitions=2, resident_rows=resident_rows)
    try:
        with duckdb.connect() as judge:
            for name, rows in tables.items():
                judge.register(name, rows)
            yield Judged(engine, judge)
    finally:
        engine.close()
