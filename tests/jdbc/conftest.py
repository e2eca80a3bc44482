"""A gateway in a process of its own, and a JVM for each version of the driver."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jdbc import drivers, lake
from tests.jdbc.jvm import Jvm, compile_probes
from tests.support.processes.servers import GatewayProcess
from tests.support.processes.writer_process import WriterProcess


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled probes; skips the test, loudly, where JDK or drivers are missing."""
    try:
        drivers.jar(drivers.NEWEST)
        drivers.jdk()
    except drivers.MissingError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true, and the JDBC tests cannot run: {error}", pytrace=False)
        pytest.skip(f"the JDBC tests cannot run: {error}")
    folder = tmp_path_factory.mktemp("classes")
    compile_probes(folder)
    return folder


VERSIONS = [
    version if version == drivers.NEWEST else pytest.param(version, marks=pytest.mark.soak)
    for version in drivers.DRIVERS
]


@pytest.fixture(scope="session", params=VERSIONS)
def jvm(request: pytest.FixtureRequest, classes: Path) -> Iterator[Jvm]:
    """A JVM with each driver in turn."""
    with Jvm(request.param, classes) as process:
        yield process


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Path:
    """The root of the tables."""
    path = tmp_path_factory.mktemp("jdbc")
    lake.write(path, shared_writers)
    return path


@pytest.fixture(scope="session")
def gateway(root: Path) -> Iterator[GatewayProcess]:
    """A gateway without encryption that lets everybody in."""
    with GatewayProcess(root) as process:
        yield process


@pytest.fixture(scope="session")
def url(gateway: GatewayProcess) -> str:
    """Its address, as JDBC spells it."""
    return f"jdbc:arrow-flight-sql://{gateway.uri.removeprefix('grpc://')}/?useEncryption=false"
