"""The data source as Spark runs it: real executors, a real gateway."""

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adbc_driver_flightsql.dbapi as flightsql
import lance
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import spark_partition_id

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.pipeline.source import register
from tests.adbc.values import VALUES, typed_table
from tests.gateway.conftest import ORDER_COUNT, orders, serving
from tests.support.lake.sources import get_url, list_statements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

Load = Callable[..., "DataFrame"]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
READABLE = tuple(name for name in VALUES if not name.startswith(("time32", "time64", "decimal256")))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spark-source")
    lance.write_dataset(orders(), root / "orders.lance", max_rows_per_file=300)
    lance.write_dataset(typed_table(), root / "typed.lance")
    return root


@pytest.fixture(scope="module")
def server(lake: Path) -> Iterator[GatewayServer]:
    with serving(lake) as started, GatewayClient(get_url(started)) as client:
        client.execute(
            "CREATE TABLE written (id BIGINT PRIMARY KEY, n INT) WITH (region_by = 'bucket(id, 2)')"
        )
        yield started


@pytest.fixture
def load(spark: "SparkSession", server: GatewayServer) -> Load:
    """A DataFrame over the gateway, by options."""
    register(spark)

    def loaded(**options: str) -> "DataFrame":
        reader = spark.read.format("lance_gateway").option("url", get_url(server))
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load()

    return loaded


def test_spark_finds_the_source_and_divides_a_table(
    spark: "SparkSession", server: GatewayServer, load: Load
) -> None:
    found = spark.read.format("lance_gateway").option("url", get_url(server)).load("orders")
    assert found.columns == ["id", "customer", "amount"]
    parts = load(table="orders", endpoints="4")
    assert parts.rdd.getNumPartitions() > 1
    assert parts.count() == ORDER_COUNT
    options = f"OPTIONS (url '{get_url(server)}', table 'orders')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW o USING lance_gateway {options}")
    assert spark.sql("SELECT count(*) AS n FROM o WHERE id >= 990").collect()[0].n == 10


def test_filters_reach_the_gateway_and_change_no_answer(
    spark: "SparkSession", server: GatewayServer, load: Load
) -> None:
    wanted = "amount > 400.5 AND customer LIKE 'customer 1%' AND id <> 806 AND customer LIKE '%1'"

    def ids() -> list[int]:
        return sorted(row.id for row in load(table="orders").where(wanted).collect())

    pushed = ids()
    assert '"id" <> 806' in list_statements(server)[-1]
    spark.conf.set(PUSHDOWN, "false")
    try:
        assert ids() == pushed
    finally:
        spark.conf.set(PUSHDOWN, "true")
    assert "WHERE" not in list_statements(server)[-1]
    assert len(pushed) > 10


def test_only_the_columns_of_a_given_schema_are_read(spark: "SparkSession", server: GatewayServer) -> None:
    reader = spark.read.format("lance_gateway").option("url", get_url(server)).schema("amount double")
    assert reader.load("orders").selectExpr("sum(amount) AS s").collect()[0].s == 224550.0
    assert list_statements(server)[-1] == 'SELECT "amount" FROM "orders"'


def plain(value: Any) -> Any:
    """A value without the differences between two clients that are none."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC) if value.tzinfo else value
    if hasattr(value, "asDict"):
        return value.asDict()
    return int(value) if isinstance(value, Decimal) and value == 2**64 - 1 else value


@pytest.mark.soak
def test_values_of_every_type_are_those_of_adbc(server: GatewayServer, load: Load) -> None:
    with flightsql.connect(get_url(server), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(READABLE)} FROM typed ORDER BY id")
        expected = cursor.fetch_arrow_table().to_pylist()
    # Spark's own Arrow way back to Python keeps time zones apart from values.
    told = load(table="typed", columns=", ".join(("id", *READABLE))).orderBy("id").toArrow().to_pylist()
    for name in READABLE:
        assert [plain(row[name]) for row in told] == [plain(row[name]) for row in expected], name


@pytest.mark.soak
def test_executors_read_files_in_direct_mode(server: GatewayServer, lake: Path, load: Load) -> None:
    before = len(list_statements(server))
    direct = load(table="orders", mode="direct", root=str(lake), endpoints="3")
    assert direct.groupBy("customer").count().count() == 7
    assert direct.where("id >= 500 AND amount IS NOT NULL").count() == 450
    assert len(list_statements(server)) == before


def test_an_error_stands_in_front(load: Load) -> None:
    for options, words in (
        ({"tabel": "t"}, "option tabel is unknown"),
        ({"table": "ordrs"}, "did you mean 'orders'"),
    ):
        with pytest.raises(Exception, match=words) as failed:
            load(**options)
        first, _, rest = str(failed.value).partition("Traceback")
        assert words in first
        assert "Error: " in rest


def test_secrets_are_in_no_plan(load: Load) -> None:
    frame = load(table="orders", token="sesame-sesame").where("id = 7")
    plan = frame._jdf.queryExecution().toString()
    assert "lance_gateway" in plan
    assert "sesame" not in plan


@pytest.mark.soak
def test_a_dataframe_is_written_and_written_again(
    spark: "SparkSession", server: GatewayServer, load: Load
) -> None:
    frame = spark.range(1000).selectExpr("id", "CAST(id % 7 AS int) AS n").repartition(2)
    for _ in range(2):
        frame.write.format("lance_gateway").option("url", get_url(server)).mode("append").save("written")
    assert load(query="SELECT count(*) AS c, sum(n) AS s FROM written").collect()[0].asDict() == {
        "c": 1000,
        "s": 2997,
    }


@pytest.mark.soak
def test_a_stream_is_written(
    spark: "SparkSession", server: GatewayServer, load: Load, tmp_path: Path
) -> None:
    spark.range(5).selectExpr("id + 5000 AS id", "1 AS n").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long, n int").parquet(str(tmp_path / "in")).writeStream
    stream = stream.format("lance_gateway").option("url", get_url(server)).option("table", "written")
    query = stream.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert load(table="written").where("id >= 5000").count() == 5


@pytest.mark.soak
def test_a_stream_of_changes_is_told_once_through_failures_and_restarts(
    spark: "SparkSession", server: GatewayServer, load: Load, tmp_path: Path
) -> None:
    del load  # The source is registered.
    told: dict[int, list[tuple[Any, ...]]] = {}
    fails = [True]

    def take(batch: "DataFrame", number: int) -> None:
        found = sorted(batch.collect(), key=lambda row: row._sequence)
        rows = [(row.id, row.n, row._change) for row in found]
        assert told.setdefault(number, rows) == rows, "a repeated batch has the same changes"
        if fails:
            raise RuntimeError(fails.pop())

    def run() -> None:
        stream = spark.readStream.format("lance_gateway").option("url", get_url(server))
        stream = stream.option("changes", "all").option("since", "1").load("streamed").writeStream
        stream = stream.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
        stream.foreachBatch(take).start().awaitTermination()

    with GatewayClient(get_url(server)) as client:
        client.execute("CREATE TABLE streamed (id BIGINT PRIMARY KEY, n INT)")
        client.execute("INSERT INTO streamed VALUES (1, 1), (2, 2)")
        with pytest.raises(StreamingQueryException):
            run()
        client.execute("UPDATE streamed SET n = 10 WHERE id = 1")
        client.execute("OPTIMIZE streamed")
        run()
        client.execute("DELETE FROM streamed WHERE id = 2")
        run()
    found = [row for _, rows in sorted(told.items()) for row in rows]
    assert sorted(found[:2]) == [(1, 1, "insert"), (2, 2, "insert")]
    assert found[2:] == [(1, 1, "update_before"), (1, 10, "update_after"), (2, 2, "delete")]


@pytest.mark.soak
def test_a_stream_of_many_changes_has_partitions_of_keys(
    spark: "SparkSession", server: GatewayServer, load: Load, tmp_path: Path
) -> None:
    told: dict[int, list[tuple[Any, ...]]] = {}
    fails = [True]

    def take(batch: "DataFrame", number: int) -> None:
        found = [tuple(row) for row in batch.withColumn("at", spark_partition_id()).collect()]
        rows = sorted(found, key=itemgetter(-2))
        assert told.setdefault(number, rows) == rows, "a repeated batch has the same changes"
        if fails:
            raise RuntimeError(fails.pop())

    def run() -> None:
        stream = spark.readStream.format("lance_gateway").option("url", get_url(server))
        stream = stream.option("changes", "all").option("since", "1").option("endpoints", "3")
        stream = stream.option("part_rows", "50").load("wide").select("id", "n", "_change", "_sequence")
        query = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()

    state: dict[int, int] = {}
    with GatewayClient(get_url(server)) as client:
        client.execute("CREATE TABLE wide (id BIGINT PRIMARY KEY, n INT) WITH (region_by = 'bucket(id, 2)')")
        client.execute("INSERT INTO wide SELECT value, 0 FROM generate_series(1, 200)")
        client.execute("UPDATE wide SET n = 1 WHERE id <= 100")
        with pytest.raises(StreamingQueryException):
            run()
        client.execute("OPTIMIZE wide")
        client.execute("DELETE FROM wide WHERE id > 150")
        client.execute("UPDATE wide SET n = n + 1")
        run()  # The batch that failed.
        run()
        client.execute("UPDATE wide SET n = 9 WHERE id = 1")
        run()
    for _, rows in sorted(told.items()):
        places: dict[int, set[int]] = {}
        for key, value, kind, _, at in rows:
            places.setdefault(key, set()).add(at)
            if kind in {"update_before", "delete"}:
                assert state.pop(key) == value
            else:
                assert key not in state
                state[key] = value
        assert all(len(one) == 1 for one in places.values()), "the order of a key is that of its partition"
    partitions = [len({row[-1] for row in rows}) for _, rows in sorted(told.items())]
    assert partitions == [3, 3, 1]
    assert state == {row.id: row.n for row in load(table="wide").collect()}
    net = load(table="wide", changes="net", since="1", endpoints="2", part_rows="50")
    assert net.rdd.getNumPartitions() == 2
    assert {row.id: row.n for row in net.collect()} == state
