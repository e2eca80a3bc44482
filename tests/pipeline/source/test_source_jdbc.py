"""The other way into Spark: its JDBC source over the Flight SQL driver, bounds and filters included."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pytest

from tests.gateway.conftest import ORDER_COUNT, orders, serving, typed_rows
from tests.jdbc import drivers
from tests.support.lake.sources import list_statements

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def jar() -> Path:
    """The newest driver; skips the test, loudly, where it can't be had."""
    try:
        drivers.jdk()
        return drivers.jar(drivers.NEWEST)
    except drivers.MissingError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true, and the JDBC test cannot run: {error}", pytrace=False)
        pytest.skip(f"the JDBC test cannot run: {error}")


def spark_over_jdbc(jar: Path, url: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.support.processes.spark_jdbc_main", str(jar), url]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert run.returncode == 0, run.stderr[-4000:]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.soak
def test_spark_reads_over_jdbc_in_parts(jar: Path, root: Path) -> None:
    lance.write_dataset(orders(), root / "orders.lance")
    lance.write_dataset(typed_rows(), root / "typed.lance")
    with serving(root) as server:
        url = f"jdbc:arrow-flight-sql://127.0.0.1:{server.port}/?useEncryption=false"
        told = spark_over_jdbc(jar, url)
        asked = " ; ".join(list_statements(server))
    assert told["schema"] == "struct<id:bigint,customer:string,amount:double>"
    assert (told["partitions"], told["count"]) == (4, ORDER_COUNT)
    assert told["late"] == [one for one in range(990, 1000) if one % 7 == 3]
    first, nothing = told["typed"]
    assert (first["id"], first["price"], first["text"]) == ("1", "12.34", "grün; 'quoted'")
    assert {value for name, value in nothing.items() if name != "id"} == {"None"}
    # Bounds and filters are the gateway's work.
    assert '"id" >= 250 AND "id" < 500' in asked
    assert "\"customer\" = 'customer 3'" in asked
