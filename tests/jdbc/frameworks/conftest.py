"""A JVM with the driver and the frameworks, and what docs/clients.md shows of them, compiled."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jdbc import drivers
from tests.jdbc.jvm import Jvm, compile_probes
from tests.support.servers import GatewayProcess

FOLDER = Path(__file__).parent
CLIENTS = FOLDER.parents[2] / "docs" / "clients.md"
FRAMEWORKS = ("jOOQ",)
_BLOCK = re.compile(r"```java\n(.*?)```", re.DOTALL)


def _write_documented(framework: str, folder: Path) -> Path:
    """Write the Java of a framework's section as a class, whose method `run` takes `connection`."""
    section = CLIENTS.read_text().partition(f"\n### {framework}\n")[2].partition("\n#")[0]
    lines = [line for block in _BLOCK.findall(section) for line in block.splitlines()]
    imports = "\n".join(line for line in lines if line.startswith("import "))
    body = "\n".join(line for line in lines if not line.startswith("import "))
    path = folder / f"Documented{framework}.java"
    path.write_text(
        f"{imports}\npublic final class Documented{framework} {{\n"
        f"public static void run(java.sql.Connection connection) throws Exception {{\n{body}\n}}\n}}\n"
    )
    return path


@pytest.fixture(scope="session")
def frameworks_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    """A JVM with the newest driver and all frameworks; skips the test, loudly, where some is missing."""
    version = next(iter(drivers.DRIVERS))
    try:
        drivers.jar(version)
        drivers.jdk()
        libraries = drivers.frameworks()
    except drivers.MissingError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true, and the tests of JDBC frameworks cannot run: {error}", pytrace=False)
        pytest.skip(f"the tests of JDBC frameworks cannot run: {error}")
    folder = tmp_path_factory.mktemp("frameworks")
    sources = [_write_documented(framework, folder) for framework in FRAMEWORKS]
    # Libraries name annotations and modules that are not there, which -Xlint:all complains of.
    compile_probes(
        folder, *sources, *sorted((FOLDER / "java").glob("*.java")), libraries=libraries, warnings="none"
    )
    with Jvm(version, folder, libraries) as process:
        yield process


@pytest.fixture(scope="session")
def frameworks_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway without tables."""
    with GatewayProcess(tmp_path_factory.mktemp("tables"), "--http-port", "off") as gateway:
        yield f"jdbc:arrow-flight-sql://{gateway.uri.removeprefix('grpc://')}/?useEncryption=false"
