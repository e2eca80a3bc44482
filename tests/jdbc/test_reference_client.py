"""Arrow's own Flight SQL client for Java, which each driver carries along, against a gateway.

Its schemas of metadata results are the reference; only its GetPrimaryKeys has the last two columns in another
order than the protocol's text, and clients look these up by name.
"""

import subprocess
from pathlib import Path

import lance
import pytest

from tests.gateway.conftest import orders, serving
from tests.jdbc import drivers
from tests.jdbc.conftest import VERSIONS

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parent / "reference" / "ReferenceClient.java"
EXPECTED = {
    "GetCatalogs": "1 rows",
    "GetDbSchemas": "3 rows",
    "GetTables": "1 rows",
    "GetTables with schemas": "1 rows",
    "GetTableTypes": "3 rows",
    "GetPrimaryKeys": "1 rows",
    "GetExportedKeys": "0 rows",
    "GetImportedKeys": "0 rows",
    "GetCrossReference": "0 rows",
    "GetXdbcTypeInfo": "1 rows",
    "GetSqlInfo": "1 rows",
    "statement": "1000 rows",
    "prepared statement": "1000 rows",
    "CancelFlightInfo": "CANCELLED",
    "CancelFlightInfo of a listing": "NOT_CANCELLABLE",
    "CancelQuery": "CANCELLED",
    "RenewFlightEndpoint": "INVALID_ARGUMENT",
    "a statement in a transaction": "1000 rows",
    "a statement behind its transaction": "NOT_FOUND",
    "BeginSavepoint": "UNIMPLEMENTED",
    "SetSessionOptions": "{colour=INVALID_NAME, endpoints=INVALID_VALUE, schema=INVALID_VALUE}",
    "GetSessionOptions": "catalog",
    "CloseSession": "CLOSED",
    "update": "INVALID_ARGUMENT",  # the table has no MemWAL
}


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.soak
def test_the_reference_client_gets_what_it_expects(tmp_path: Path, version: str) -> None:
    jar = str(drivers.jar(version))
    compile_it = [str(drivers.jdk() / "javac"), "-cp", jar, "-encoding", "UTF-8", "-d", str(tmp_path)]
    subprocess.run([*compile_it, str(SOURCE)], check=True)
    lake = tmp_path / "lake"
    lake.mkdir()
    lance.write_dataset(orders(), lake / "orders.lance")
    with serving(lake) as server:
        java = [str(drivers.jdk() / "java"), "-XX:TieredStopAtLevel=1"]
        java += ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", f"{tmp_path}:{jar}"]
        run = subprocess.run(
            [*java, "ReferenceClient", str(server.port)], capture_output=True, text=True, check=True
        )
    assert dict(line.split("\t", 1) for line in run.stdout.splitlines() if "\t" in line) == EXPECTED
