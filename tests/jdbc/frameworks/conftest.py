"""A JVM with the driver and the frameworks, and what docs/clients.md shows of them, compiled."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jdbc import drivers
from tests.jdbc.jvm import Jvm, compile_probes
from tests.support.judging.documented import DOCS, read_blocks
from tests.support.processes.servers import GatewayProcess

FOLDER = Path(__file__).parent
CLIENTS = DOCS / "clients.md"
FRAMEWORKS = ("jOOQ", "Hibernate", "Flyway", "Liquibase")
EXAMPLES = FOLDER.parents[2] / "examples"
_CLASS = re.compile(r"^public class (\w+)", re.MULTILINE)
_URL = "jdbc:arrow-flight-sql://127.0.0.1:31337/?useEncryption=false"


def _write_documented(framework: str, folder: Path, url: str) -> list[Path]:
    """Write the Java of a framework's section: its classes, and one whose method `run` takes `connection`."""
    blocks = [
        block.text.replace(_URL, url)
        .replace("filesystem:migrations", f"filesystem:{folder}")
        .replace('"changes"', f'"{folder}"')
        for block in read_blocks(CLIENTS, f"### {framework}")
        if block.language == "java"
    ]
    sources = {found[1]: block for block in blocks if (found := _CLASS.search(block))}
    lines = "".join(block for block in blocks if block not in sources.values()).splitlines()
    imports = "\n".join(line for line in lines if line.startswith("import "))
    body = "\n".join(line for line in lines if not line.startswith("import "))
    sources[f"Documented{framework}"] = (
        f"{imports}\npublic final class Documented{framework} {{\n"
        f"public static void run(java.sql.Connection connection) throws Exception {{\n{body}\n}}\n}}\n"
    )
    for name, source in sources.items():
        (folder / f"{name}.java").write_text(source)
    return [folder / f"{name}.java" for name in sources]


@pytest.fixture(scope="session")
def frameworks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compiled classes are, and the files that documented Java reads."""
    return tmp_path_factory.mktemp("frameworks")


@pytest.fixture(scope="session")
def frameworks_jvm(frameworks_folder: Path, frameworks_url: str) -> Iterator[Jvm]:
    """A JVM with the newest driver and all frameworks; skips the test, loudly, where some is missing."""
    version = drivers.NEWEST
    try:
        drivers.jar(version)
        drivers.jdk()
        # The folders have the files that name the database to Flyway and Liquibase.
        libraries = [*drivers.frameworks(), EXAMPLES / "flyway", EXAMPLES / "liquibase"]
    except drivers.MissingError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true, and the tests of JDBC frameworks cannot run: {error}", pytrace=False)
        pytest.skip(f"the tests of JDBC frameworks cannot run: {error}")
    folder = frameworks_folder
    sources = [path for name in FRAMEWORKS for path in _write_documented(name, folder, frameworks_url)]
    sources += [*(FOLDER / "java").glob("*.java"), *EXAMPLES.glob("*/*.java")]
    # Libraries name annotations and modules that are not there, which -Xlint:all complains of.
    compile_probes(folder, *sources, libraries=libraries, warnings="none")
    with Jvm(version, folder, libraries) as process:
        yield process


@pytest.fixture(scope="session")
def frameworks_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway without tables."""
    with GatewayProcess(tmp_path_factory.mktemp("tables"), "--http-port", "off") as gateway:
        yield f"jdbc:arrow-flight-sql://{gateway.uri.removeprefix('grpc://')}/?useEncryption=false"
