"""A catalog on S3 answers as one on a local disk does."""

import lance
import pyarrow as pa
import pytest

from memwal.errors import NotFoundError
from planner.catalog import Catalog
from planner.engine import QueryEngine, SessionSettings
from tests.memwal.written import WrittenTable, keyed_schema

pytestmark = pytest.mark.slow


@pytest.fixture
def engine(s3_location: tuple[str, dict[str, str]]) -> QueryEngine:
    uri, options = s3_location
    table = WrittenTable.create(
        f"{uri}/t.lance", keyed_schema(pa.field("id", pa.int64())), options, bucket_column="id", num_buckets=2
    )
    lance.write_dataset(
        table.rows(id=[1, 2, 3], qty=[0, 0, 0]), table.uri, mode="append", storage_options=options
    )
    table.write(table.rows(id=[2], qty=[20]))
    return QueryEngine(Catalog.open(uri, options))


def rows(engine: QueryEngine, sql: str, **settings: str) -> list[tuple[int, int]]:
    found = engine.execute(sql, SessionSettings(**settings)).read_all().to_pylist()  # type: ignore[arg-type]
    return sorted((row["id"], row["qty"]) for row in found)


def test_fresh_rows_are_seen(engine: QueryEngine):
    assert engine.catalog.table_names() == ("t",)
    assert rows(engine, "SELECT * FROM t") == [(1, 0), (2, 20), (3, 0)]
    assert rows(engine, "SELECT * FROM t WHERE id IN (2, 3)") == [(2, 20), (3, 0)]
    assert rows(engine, "SELECT * FROM t", consistency="snapshot") == [(1, 0), (2, 0), (3, 0)]


def test_a_missing_table_is_named(engine: QueryEngine):
    with pytest.raises(NotFoundError, match="'tt' does not exist"):
        engine.execute("SELECT * FROM tt")
