"""Calls that clients of PostgreSQL and MySQL send, and that change nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of

CALLS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("pg_backend_pid(), pg_catalog.pg_backend_pid(), connection_id()", (0, 0, 0)),
    ("user(), current_user(), session_user(), current_user", ("anonymous",) * 4),
    ("database(), schema(), current_schema()", ("main",) * 3),
    ("pg_client_encoding(), inet_server_addr(), inet_client_port()", ("UTF8", None, None)),
    ("pg_size_pretty(10239), pg_size_pretty(10240), pg_size_pretty(NULL)", ("10239 bytes", "10 kB", None)),
    ("pg_size_pretty(10485247), pg_size_pretty(10485248)", ("10239 kB", "10 MB")),
    ("pg_size_pretty(12345678), pg_size_pretty(-5000000000)", ("12 MB", "-4768 MB")),
    (r"quote_literal('it''s'), quote_literal('a\b'), quote_nullable(NULL)", ("'it''s'", r"E'a\\b'", "NULL")),
    ("pg_has_role('anonymous', 'usage'), pg_has_role('x', 'usage')", (True, False)),
    ("has_column_privilege('t', 'id', 'select'), has_column_privilege('t', 'id', 'insert')", (True, False)),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def engine(root: Path) -> Iterator[QueryEngine]:
    lance.write_dataset(pa.table({"id": range(1000)}), root / "t.lance")
    opened = QueryEngine(Catalog.open(str(root)), partitions=1)
    yield opened
    opened.close()


@pytest.mark.parametrize(("calls", "values"), CALLS)
def test_calls_have_values(engine: QueryEngine, calls: str, values: tuple[Any, ...]) -> None:
    assert rows_of(engine.execute(f"SELECT {calls}").read_all()) == [values]


def test_columns_may_have_such_names(engine: QueryEngine) -> None:
    query = "SELECT database, schema, user FROM (SELECT 1 AS database, 2 AS schema, 3 AS user)"
    assert rows_of(engine.execute(query).read_all()) == [(1, 2, 3)]


def test_sizes_are_those_of_the_files_of_data(engine: QueryEngine, root: Path) -> None:
    stored = sum(file.stat().st_size for file in (root / "t.lance" / "data").iterdir())
    query = "SELECT pg_table_size('t'), pg_total_relation_size('main.t'::regclass), pg_relation_size('none')"
    assert rows_of(engine.execute(query).read_all()) == [(stored, stored, None)]
    query = "SELECT pg_total_relation_size(c.oid) FROM pg_class c WHERE c.relname = 't'"
    assert rows_of(engine.execute(query).read_all()) == [(stored,)]
