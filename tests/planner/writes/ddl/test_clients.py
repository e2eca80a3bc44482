"""Tables that are defined over the wire: by ADBC, and on S3."""

from pathlib import Path

import adbc_driver_flightsql.dbapi as flightsql
import lance
import pyarrow as pa
import pyarrow.fs
import pytest
from pyarrow import flight

from lance_gateway.memwal.errors import AlreadyExistsError, NotFoundError, UnsupportedError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.planner.writes.ddl.conftest import EAGER, Gateway


@pytest.mark.slow
def test_adbc_defines_tables_and_sees_their_columns_and_keys(root: Path) -> None:
    with (
        serving(root) as server,
        flightsql.connect(f"grpc://127.0.0.1:{server.port}", autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "CREATE TABLE visits (id BIGINT, page TEXT NOT NULL, v FLOAT[2], PRIMARY KEY (page, id)) "
            "WITH (region_by = 'bucket(id, 4)')"
        )
        cursor.execute("INSERT INTO visits VALUES (1, '/', [0.5, 1.5]), (2, '/docs', NULL)")
        cursor.execute("SELECT id FROM visits ORDER BY id")
        assert cursor.fetchall() == [(1,), (2,)]
        cursor.execute("OPTIMIZE visits")
        assert cursor.fetch_arrow_table().column("table_name").to_pylist() == ["visits"]
        objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        schemas = {one["db_schema_name"]: one for one in objects[0]["catalog_db_schemas"]}
        (table,) = schemas["main"]["db_schema_tables"]
        assert [one["column_name"] for one in table["table_columns"]] == ["id", "page", "v"]
        with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as wire:
            keys = rpc.fetch(wire, sql.CommandGetPrimaryKeys(table="visits"))
        assert keys.column("column_name").to_pylist() == ["page", "id"]
        schema = connection.adbc_get_table_schema("visits")
        assert schema.field("v").type == pa.list_(pa.float32(), 2)
        cursor.execute("ALTER TABLE visits RENAME COLUMN v TO vector")
        assert connection.adbc_get_table_schema("visits").names == ["id", "page", "vector"]
        cursor.execute("CREATE TABLE copy AS SELECT page FROM visits")
        cursor.execute("DROP TABLE visits")
        with pytest.raises(flightsql.ProgrammingError, match="'visits' does not exist"):
            cursor.execute("SELECT * FROM visits")
        cursor.execute("SELECT count(*) FROM copy")
        assert cursor.fetchall() == [(2,)]


@pytest.mark.slow
@pytest.mark.soak
def test_tables_come_and_go_on_s3(s3_location: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    uri, options = s3_location
    catalogs = [_opened(uri, options) for _ in range(2)]
    first, second = (Gateway(tmp_path, QueryEngine(catalog)) for catalog in catalogs)
    make = "CREATE TABLE t (id INT PRIMARY KEY, name TEXT) WITH (region_by = 'truncate(id, 10)')"
    late = second.engine.prepare_statement(make)
    first(make)
    with pytest.raises(AlreadyExistsError):
        late.execute()
    first("INSERT INTO t VALUES (1, 'a'), (15, 'b')")
    second("INSERT INTO t VALUES (2, 'c')")
    assert first("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "c"), (15, "b")]
    assert lance.dataset(f"{uri}/t.lance", storage_options=options).mem_wal_index_details() is not None
    first("ALTER TABLE t ADD COLUMN n INT")
    first("CREATE INDEX ON t (n)")
    first("CREATE TABLE u (PRIMARY KEY (id)) AS SELECT * FROM t")
    first("CREATE OR REPLACE TABLE u (PRIMARY KEY (id)) AS SELECT * FROM u WHERE id < 10")
    assert first("SELECT id, n FROM u ORDER BY id") == [(1, None), (2, None)]
    first("CREATE VIEW w AS SELECT count(*) AS n FROM u")
    first("ALTER VIEW w RENAME TO v")
    assert second("SELECT n FROM v") == [(2,)]
    with pytest.raises(UnsupportedError, match="object stores move no directories"):
        first("ALTER TABLE t RENAME TO t2")
    for statement in ("DROP VIEW v", "DROP TABLE u", "DROP TABLE t"):
        first(statement)
    assert first.engine.catalog.names() == ()
    with pytest.raises(NotFoundError):
        first("SELECT * FROM t")
    first(make)
    first("INSERT INTO t VALUES (3, 'new')")
    assert first("SELECT * FROM t") == [(3, "new")]
    for one in (first, second):
        one.engine.close()


def _opened(uri: str, options: dict[str, str]) -> Catalog:
    """A catalog over a prefix, which exists once something is below it."""
    endpoint = options["aws_endpoint"].removeprefix("http://")
    filesystem = pyarrow.fs.S3FileSystem(
        access_key="testing",
        secret_key="testing",
        region="us-east-1",
        endpoint_override=endpoint,
        scheme="http",
    )
    with filesystem.open_output_stream(f"{uri.removeprefix('s3://')}/.keep") as stream:
        stream.write(b"")
    return Catalog.open(uri, options, writing=EAGER)
