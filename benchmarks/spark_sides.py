"""Spark under measurement: sessions of this process's own JVM, and the JDBC driver to compare with."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.settings import REPOSITORY
from memwal.errors import PreconditionError
from pipeline.spark.session import opened_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JDBC_DRIVER = "org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver"
_DRIVERS = REPOSITORY / ".jdbc-drivers"


@contextmanager
def spark_session(cores: int) -> Iterator["SparkSession"]:
    """Spark on so many cores, with the JDBC driver; sessions of one process follow one another.

    Raises:
        PreconditionError: pyspark, a JDK or the driver is missing.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {"spark.jars": str(jdbc_driver()), "spark.sql.shuffle.partitions": "4"}
    with opened_session(f"local[{cores}]", settings=settings, app="benchmarks") as session:
        session.sparkContext.setLogLevel("OFF")
        yield session


def jdbc_driver() -> Path:
    """The newest jar that is there, fetched where none is.

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


def drain(rows: "DataFrame") -> None:
    """Has Spark read everything, and keep nothing."""
    rows.write.format("noop").mode("overwrite").save()
