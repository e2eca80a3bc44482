"""An object store that quotes keys and addresses in its refusals: neither port repeats them."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.config import Flag, load
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.gateway.start.observability import Observability
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.storage.time_limits import StorageLimits
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean
from tests.gateway.protocol.test_places import told
from tests.support.lake.tables import key_field
from tests.support.stores import failing_s3
from tests.support.stores.failing_s3 import FailingS3

pytestmark = pytest.mark.slow

BUCKET, PREFIX = "bucket-of-canaries", "prefix-of-canaries/tables"
KEYS = {"aws_access_key_id": "AKIACANARYCANARY", "aws_secret_access_key": "canary/secret+access=key"}
SECRETS = (BUCKET, "prefix-of-canaries", "127.0.0.1", *KEYS.values())


def quote(start_response: Callable[..., Any], *_: str) -> Iterable[bytes]:
    """Refuse a request in the words of S3."""
    url = f"http://127.0.0.1/{BUCKET}/{PREFIX}?X-Amz-Credential={KEYS['aws_access_key_id']}"
    body = (
        "<Error><Code>SignatureDoesNotMatch</Code><Message>The signature does not match</Message>"
        f"<AWSAccessKeyId>{KEYS['aws_access_key_id']}</AWSAccessKeyId>"
        f"<StringToSign>AWS4-HMAC-SHA256 {url} {KEYS['aws_secret_access_key']}</StringToSign>"
        f"<Resource>/{BUCKET}/{PREFIX}/t.lance</Resource></Error>"
    ).encode()
    start_response("403 Forbidden", [("Content-Length", str(len(body)))])
    return [body]


@pytest.fixture(scope="module")
def store() -> Iterator[FailingS3]:
    with failing_s3.failing_s3(BUCKET) as store:
        schema = pa.schema([key_field("id", pa.int64())])
        options = {**store.options, **KEYS}
        for name in ("t", "unopened"):
            rows = pa.table([range(10)], schema=schema)
            dataset = lance.write_dataset(
                rows, f"s3://{BUCKET}/{PREFIX}/{name}.lance", storage_options=options
            )
            dataset.initialize_mem_wal()
        yield store


@pytest.mark.soak
def test_refusals_of_the_store_are_told_without_its_secrets(
    store: FailingS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(failing_s3, "_send_failure", quote)
    loaded = load([Flag("test", "root", str(tmp_path)), Flag("test", "observability.http_port", 0)])
    limits = StorageLimits(1.0, 2.0, 10.0)
    catalog = Catalog.open(f"s3://{BUCKET}/{PREFIX}", {**store.options, **KEYS}, limits=limits)
    observability = Observability(loaded.config.observability, catalog, 0)
    server = GatewayServer(observability.create_engine(None, None))
    observability.watch(server)
    try:
        with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
            assert rpc.query(client, "SELECT count(*) AS n FROM t")["n"].to_pylist() == [10]
            store.arm(lambda *_: "refused")
            texts = [
                told(lambda: rpc.query(client, statement).to_pylist())  # noqa: B023
                for statement in (
                    "SELECT * FROM t",
                    "SELECT * FROM unopened",
                    "SELECT * FROM absent",
                    "INSERT INTO t VALUES (77)",
                    "CREATE TABLE made (id BIGINT PRIMARY KEY)",
                    "SELECT * FROM t FOR VERSION AS OF 1",
                    "SELECT * FROM system.generations",
                    "SELECT error FROM system.queries",
                )
            ]
            assert observability.http is not None
            texts += ask_probes(observability.http.port)
            for text in texts:
                assert not any(secret in text for secret in SECRETS), text
                assert_clean(text)
            assert any("refuses access" in text for text in texts)
            assert "the root can't be listed\n" in texts
    finally:
        store.disarm()
        server.queries.cancel_all(UnavailableError("the test is over"))
        observability.close()
        server.shutdown()
        catalog.close()


def ask_probes(port: int) -> list[str]:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as browser:
        ready = browser.get("/readyz")
        assert ready.status_code == 503
        return [ready.text, browser.get("/healthz").text, browser.get("/metrics").text]
