"""What statements cost in requests to an object store, as docs/operations.md says."""

from collections.abc import Iterator

import pytest

from lance_gateway.memwal.storage.backends import ObjectBackend
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.faults.scenario import create_table
from tests.support.processes.gateways import EAGER, EngineGateway
from tests.support.stores.failing_s3 import FailingS3, failing_s3

BUCKET = "costs"


@pytest.fixture(scope="module")
def s3() -> Iterator[FailingS3]:
    with failing_s3(BUCKET) as server:
        yield server


@pytest.fixture
def gateway(s3: FailingS3, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineGateway]:
    """A gateway that owns the region of key 4, whose rows are in the log, and has read them.

    It has just looked whether the table is still the same, which it does once a second.
    """
    monkeypatch.setattr(ObjectBackend, "identity_seconds", 3600.0)
    create_table(f"s3://{BUCKET}", s3.options)
    gateway = EngineGateway(Catalog.open(f"s3://{BUCKET}", s3.options, writing=EAGER))
    gateway.write("INSERT INTO t VALUES (4, 1)")
    gateway.read("SELECT * FROM t")
    try:
        yield gateway
    finally:
        gateway.close()


def list_requests(s3: FailingS3) -> list[str]:
    """The methods of requests since the last look, without those by which owners show that they live."""
    return [method for method, path in s3.requests if "/_gateway/writers/" not in path]


@pytest.mark.slow
def test_a_row_costs_its_owner_one_put_that_is_not_refused_and_one_look(
    s3: FailingS3, gateway: EngineGateway
) -> None:
    s3.arm(lambda *_: None)
    for value in range(2, 5):
        gateway.write(f"INSERT INTO t VALUES (4, {value})")
    gateway.read("SELECT v FROM t WHERE k = 4")  # The look follows the answer to the write.
    assert sorted(list_requests(s3))[-3:] == ["PUT", "PUT", "PUT"]
    assert len(list_requests(s3)) == 3 + 3 + 6
    s3.arm(lambda *_: None)
    assert gateway.read("SELECT v FROM t WHERE k = 4").to_pylist() == [{"v": 4}]
    assert len(list_requests(s3)) == 6
    assert set(list_requests(s3)) <= {"GET", "HEAD"}
