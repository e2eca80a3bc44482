"""A catalog on S3 answers as one on a local disk does."""

from threading import Barrier

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.pipeline.jobs.lake import Lake
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.plans.scan_parts import ScanPart
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.state.table_state import Confirmed
from tests.memwal.written import WrittenTable, keyed_schema
from tests.support.judging.principals import ALL, create_principal

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


def test_the_tables_of_a_statement_are_looked_up_at_the_same_time(
    engine: QueryEngine, s3_location: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
):
    uri, options = s3_location
    lance.write_dataset(pa.table({"id": [2, 3]}), f"{uri}/u.lance", storage_options=options)
    join = "SELECT t.id, t.qty FROM t JOIN u ON t.id = u.id"
    assert rows(engine, join) == [(2, 20), (3, 0)]
    both, confirm = Barrier(2), Table.confirm

    def meet(table: Table) -> Confirmed | None:
        both.wait(10)
        return confirm(table)

    monkeypatch.setattr(Table, "confirm", meet)
    assert rows(engine, join) == [(2, 20), (3, 0)]


def test_a_missing_table_is_named(engine: QueryEngine):
    with pytest.raises(NotFoundError, match="'tt' does not exist"):
        engine.execute("SELECT * FROM tt")


@pytest.mark.parametrize("path", ["%2e%2e/%2E%2e/.%2e/secret.lance", "x?/../..", "x#y"])
def test_a_forged_part_leads_to_no_other_table(
    engine: QueryEngine, s3_location: tuple[str, dict[str, str]], path: str
):
    """Lance reads an address as a URL: what is escaped there means what it means unescaped."""
    uri, options = s3_location
    secret = WrittenTable.create(f"{uri}/secret.lance", keyed_schema(pa.field("id", pa.int64())), options)
    lance.write_dataset(secret.rows(id=[666], qty=[666]), secret.uri, mode="append", storage_options=options)
    query = engine.prepare("SELECT * FROM t", access=create_principal(t=ALL))
    offer = query.parts(2)
    assert offer is not None
    message = offer.parts[0].to_message()
    message.snapshot.regions[0].generations.add(generation=99, path=path)
    with pytest.raises(InvalidInputError, match="not a directory below its region's"):
        query.execute_part(ScanPart.from_message(message)).read_all()


def test_schemas_are_made_and_dropped(engine: QueryEngine, s3_location: tuple[str, dict[str, str]]):
    def run(sql: str) -> None:
        engine.prepare_statement(sql).execute()

    run("CREATE SCHEMA s")
    run("CREATE SCHEMA empty")
    lance.write_dataset(
        pa.table({"id": [7], "qty": [7]}), f"{s3_location[0]}/found/t.lance", storage_options=s3_location[1]
    )
    engine.storage.put("notes/t.txt", b"of another program")
    run("CREATE TABLE s.t (id BIGINT PRIMARY KEY, qty BIGINT) WITH (region_by = 'bucket(id, 2)')")
    run("INSERT INTO s.t SELECT id + 10, qty FROM t")
    run("CREATE VIEW s.v AS SELECT * FROM t WHERE id > 11")
    assert rows(engine, "SELECT * FROM s.t") == [(11, 0), (12, 20), (13, 0)]
    assert (
        rows(engine, "SELECT * FROM s.v")
        == rows(engine, "SELECT * FROM v", schema="s")
        == [(12, 20), (13, 0)]
    )
    assert rows(engine, "SELECT * FROM found.t") == [(7, 7)]
    other = Catalog.open(*s3_location)
    assert other.schema_names() == ("empty", "found", "main", "s")
    assert other.names() == ("found.t", "s.t", "s.v", "t")
    assert Lake.open(*s3_location).table_names() == ("found.t", "s.t", "t")
    other.close()
    with pytest.raises(NotFoundError, match="Schema 'notes' does not exist"):
        engine.execute("SELECT * FROM notes.t")
    run("DROP SCHEMA s CASCADE")
    run("DROP SCHEMA empty")
    assert engine.catalog.schema_names() == ("found", "main")
    with pytest.raises(InvalidInputError, match="on object stores none of"):
        engine.prepare_statement('CREATE SCHEMA "a%62"')


@pytest.mark.parametrize("name", ["secret.lance#mine", "secret.lance?mine", "%73ecret", "50%25"])
def test_a_name_that_lance_would_take_for_another_is_none(engine: QueryEngine, name: str):
    for sql in (f'CREATE TABLE "{name}" (id BIGINT PRIMARY KEY)', f'CREATE TABLE "{name}" AS SELECT 1 AS id'):
        with pytest.raises(InvalidInputError, match="can't be the name of a table"):
            engine.prepare_statement(sql)
