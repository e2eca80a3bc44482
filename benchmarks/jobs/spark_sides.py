"""Spark under measurement: sessions of this process's own JVM, and the JDBC driver to compare with."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.reports.settings import REPOSITORY
from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.pipeline.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JDBC_DRIVER = "org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver"
_DRIVERS = REPOSITORY / ".jdbc-drivers"


@contextmanager
def start_spark(cores: int) -> Iterator["SparkSession"]:
    """Spark on so many cores, with the JDBC driver; sessions of one process follow one another.

    Raises:
        PreconditionError: pyspark, a JDK or the driver is missing.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {"spark.jars": str(find_jdbc_driver()), "spark.sql.shuffle.partitions": "4"}
    with open_session(f"local[{cores}]", settings=settings, app="benchmarks") as session:
        session.sparkContext.setLogLevel("OFF")
        yield session


def find_jdbc_driver() -> Path:
    """Return the newest jar on this machine; fetch it if there is none.

    Raises:
        PreconditionError: it cannot be had.
    """
    if not list(_DRIVERS.glob("*.jar")):
        subprocess.run([sys.executable, "-m", "tests.jdbc.drivers"], cwd=REPOSITORY, check=False)
    jars = sorted(_DRIVERS.glob("*.jar"))
    if not jars:
        msg = f"there is no Flight SQL JDBC driver in {_DRIVERS}: run `make jdbc-drivers`"
        raise PreconditionError(msg)
    return jars[-1]


def drain_rows(rows: "DataFrame") -> None:
    """Have Spark read everything, and keep nothing."""
    rows.write.format("noop").mode("overwrite").save()


def read_from_memory(spark: "SparkSession", count: int, parts: int) -> "DataFrame":
    """So many rows of three numbers that a Python source has at hand: the least that such sources cost."""
    import numpy as np  # noqa: PLC0415 - as pyspark, below
    import pyarrow as pa  # noqa: PLC0415
    from pyspark.sql.datasource import (  # noqa: PLC0415 - a JVM is not every family's
        DataSource,
        DataSourceReader,
        InputPartition,
    )

    class FromMemory(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(part) for part in range(parts)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            left = count // parts + (partition.value < count % parts)
            numbers = np.arange(min(left, 1 << 16))
            columns = {"id": numbers, "grp": numbers.astype(np.int32), "price": numbers.astype(np.float64)}
            batch = pa.record_batch(columns)
            while left > 0:
                yield batch.slice(0, left)
                left -= batch.num_rows

    # Sources that are defined here travel to executors whole, which need not have this package.
    class Memory(DataSource):
        @classmethod
        def name(cls) -> str:
            return "memory"

        def schema(self) -> str:
            return "id long, grp int, price double"

        def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002 - what Spark calls
            return FromMemory()

    spark.dataSource.register(Memory)
    return spark.read.format("memory").load()
