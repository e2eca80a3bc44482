"""Jobs, and the client of Spark's tasks, on tables of schemas."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lance_gateway.gateway.cli import app
from lance_gateway.memwal.errors import NotFoundError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.pipeline.jobs.lake import Lake
from lance_gateway.pipeline.merging.job import merge
from lance_gateway.pipeline.source.client import Gateway
from lance_gateway.pipeline.source.options import Options
from tests.gateway.conftest import serving
from tests.support.processes.gateways import EngineGateway


def test_jobs_find_tables_of_schemas(gateway: EngineGateway, root: Path) -> None:
    gateway.write("CREATE SCHEMA sales")
    for name in ("t", "sales.t", '"sales.t"'):
        gateway.write(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT) WITH (region_by = 'bucket(id, 2)')")
        gateway.write(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    gateway.close()
    (root / "checkpoints" / "x").mkdir(parents=True)
    lake = Lake.open(str(root))
    assert lake.table_names() == ('"sales.t"', "sales.t", "t")
    merge(lake.table("sales.t"))
    assert lance.dataset(root / "sales" / "t.lance").count_rows() == 2
    assert (
        lance.dataset(root / "t.lance").count_rows()
        == lance.dataset(root / "sales.t.lance").count_rows()
        == 0
    )
    done = CliRunner().invoke(app, ["pipeline", "merge", '"sales.t"', "--root", str(root)])
    assert done.exit_code == 0, done.output
    assert lance.dataset(root / "sales.t.lance").count_rows() == 2
    with pytest.raises(NotFoundError, match=r"there is no table 'sales.u' .*did you mean 'sales.t'"):
        lake.table("sales.u")


def test_rows_of_tasks_go_to_the_table_of_the_schema(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        writer = EngineGateway(tmp_path)
        writer.write("CREATE SCHEMA s")
        writer.write("CREATE TABLE s.t (id INT PRIMARY KEY)")
        writer.write("CREATE TABLE t (k INT PRIMARY KEY)")
        writer.close()
        url = f"grpc://127.0.0.1:{server.port}"
        name = TableName("t", "s")
        with Gateway(url, Options.of({"url": url, "table": "s.t"})) as client:
            assert client.primary_key(name) == ("id",)
            rows = pa.table({"id": pa.array([1, 2], pa.int32())})
            assert client.append(name, rows.schema, rows.to_batches()) == 2
            assert sum(batch.num_rows for batch in client.query("SELECT * FROM s.t")) == 2
