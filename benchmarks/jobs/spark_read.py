"""Spark reads three columns of a table: through the gateway, by JDBC, and on its executors.

All of them plan with the same gateway and see the same fresh rows. JDBC gives Spark one partition, whose rows
the driver turns into Java objects one by one; the data source gives as many as there are cores, in batches.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchmarks.jobs.spark_sides import JDBC_DRIVER, drain_rows, read_from_memory, start_spark
from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import TABLE_NAME
from benchmarks.reports.report import Bar, Finding
from benchmarks.reports.timing import Samples, interleave
from benchmarks.servers.server import start_gateway
from benchmarks.tables.table import BenchTable
from lance_gateway.pipeline.source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = ("id", "grp", "price")
_WAYS = ("gateway", "direct", "jdbc", "memory")


def run(context: BenchContext) -> Iterator[Finding]:
    """On two cores against JDBC, then the same on one."""
    settings = context.settings
    table = context.open_main_table()
    rounds = max(1, settings.rounds // 5)
    with start_gateway(table.root) as server:
        two = _measure(table, server.uri, 2, _WAYS, rounds)
        one = _measure(table, server.uri, 1, _WAYS[:2], rounds)
    count = table.answers.count

    def rate(samples: Samples, way: str) -> str:
        return f"{count / samples.median_ms(way) * 1e3:,.0f} rows/s"

    title = f"Spark reads {count:,} rows x {len(_COLUMNS)} columns on 2 cores"
    for way, bar in (("gateway", Bar(3, "at least")), ("direct", None)):
        yield Finding(
            f"{title}, {'through the gateway' if way == 'gateway' else 'direct mode'}",
            rate(two, way),
            f"JDBC {rate(two, 'jdbc')}",
            two.ratio("jdbc", way),
            bar=bar,
            note="value = throughput; into Spark's noop sink",
        )
    yield Finding(
        f"{title}, through the gateway, against a Python source that has such rows in memory",
        rate(two, "gateway"),
        f"from memory {rate(two, 'memory')}",
        two.ratio("memory", "gateway"),
        note="the floor of any Python source: nothing is read or decoded",
    )
    for way, label in (("gateway", "through the gateway"), ("direct", "direct mode")):
        yield Finding(
            f"{label}: 2 cores of Spark against 1",
            rate(two, way),
            f"1 core {rate(one, way)}",
            one.median_ms(way) / two.median_ms(way),
            note="sessions after one another; the gateway and Lance's threads have all cores",
        )


def _measure(table: BenchTable, uri: str, cores: int, ways: tuple[str, ...], rounds: int) -> Samples:
    with start_spark(cores) as spark:
        register(spark)
        frames = {way: _read_frame(spark, way, table, uri) for way in ways}
        for way, rows in frames.items():
            found = rows.count()
            if found != table.answers.count:
                raise WrongAnswerError(f"{way} reads {found} rows instead of {table.answers.count}")
        sides: dict[str, Callable[[int], object]] = {
            way: lambda _, rows=rows: drain_rows(rows)  # type: ignore[misc]
            for way, rows in frames.items()
        }
        return interleave(sides, rounds=rounds)


def _read_frame(spark: "SparkSession", way: str, table: BenchTable, uri: str) -> "DataFrame":
    if way == "jdbc":
        address = uri.removeprefix("grpc://")
        reader = spark.read.format("jdbc").option("driver", JDBC_DRIVER)
        url = f"jdbc:arrow-flight-sql://{address}/?useEncryption=false"
        return reader.option("url", url).option("dbtable", TABLE_NAME).load().select(*_COLUMNS)
    if way == "memory":
        return read_from_memory(spark, table.answers.count, parts=2)
    reader = spark.read.format("lance_gateway").option("url", uri).option("table", TABLE_NAME)
    if way == "direct":
        reader = reader.option("mode", "direct").option("root", str(table.root))
    return reader.option("columns", ",".join(_COLUMNS)).load()
