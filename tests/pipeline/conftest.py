"""What tests of the pipeline share: engines over their tables, and one Spark session, once somebody asks."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lance_gateway.pipeline.spark.session import find_session
from lance_gateway.planner.engine import QueryEngine
from tests.planner.search.sources.replayed import Ask, asking
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.java import require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.worker.reuse": "true",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for a JVM is slow."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def gateway(root: Path) -> Iterator[EngineGateway]:
    """An engine in this process, to write to the tables of the test and to see what they hold."""
    found = EngineGateway(root)
    yield found
    found.close()


@pytest.fixture
def ask(root: Path, open_engine: Callable[[Path], QueryEngine]) -> Ask:
    """Asks an engine that runs all the time, as a gateway's does."""
    return asking(open_engine(root))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Spark on two cores of this machine; skips the test, loudly, where a JDK is missing."""
    require_java()
    folder = tmp_path_factory.mktemp("spark")
    # Executors are children of this process: they have its Python and find the tests' own modules.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(folder), "spark.local.dir": str(folder)}
    session = find_session("local[2]", settings=settings, app="tests")
    session.sparkContext.setLogLevel("OFF")
    yield session
    jvm = session.sparkContext._gateway.proc
    session.stop()
    session.sparkContext._gateway.shutdown()
    jvm.stdin.close()
    jvm.wait(timeout=60)
