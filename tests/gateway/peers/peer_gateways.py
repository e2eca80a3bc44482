"""Gateways in the test process that know each other: an engine, a server and a way to forward each."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa

from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.auth.tls import read_tls_arguments
from lance_gateway.gateway.config.sections.serving import TlsSection
from lance_gateway.gateway.peers.forwarding import ForwardedRows, Forwarding
from lance_gateway.gateway.peers.peer_identity import PeerToken, Trust
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.writing import OwnershipPolicy, TableWriter, WriteOptions
from lance_gateway.memwal.writing.observing import RegionStats
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake import manifests
from tests.support.lake.tables import key_field
from tests.support.processes.ports import find_free_port

TOKEN = PeerToken("the-secret-of-these-gateways")
TABLE = "events"


@dataclass(frozen=True)
class Peer:
    """One gateway.

    Attributes:
        url: by which others reach it.
        engine: of it.
        server: of it.
        forwarding: by which it sends rows to others; None where it does not.
    """

    url: str
    engine: QueryEngine
    server: GatewayServer
    forwarding: Forwarding | None

    @property
    def writer(self) -> TableWriter:
        return self.engine.catalog.table(TABLE).writer()

    @property
    def stats(self) -> Sequence[RegionStats]:
        return self.writer.stats()

    def write(self, sql: str) -> int:
        """Run a statement that changes something; how many rows it affected."""
        prepared = self.engine.prepare_statement(sql)
        assert not isinstance(prepared, PreparedQuery), sql
        return prepared.execute().affected

    def ids(self) -> list[int]:
        """The ids of the table's rows, sorted; with every row of one id."""
        found: list[int] = (
            self.engine.execute(f"SELECT id FROM {TABLE} ORDER BY id").read_all()["id"].to_pylist()
        )
        return found


@contextmanager
def peer(
    root: Path,
    policy: OwnershipPolicy = OwnershipPolicy.FORWARD,
    *,
    hold_ms: int = 0,
    port: int | None = None,
    token: PeerToken = TOKEN,
    timeout_seconds: float = 10.0,
    security: Security | None = None,
    tls: TlsSection | None = None,
    ca: Path | None = None,
    receiving: Callable[..., ForwardedRows] = ForwardedRows,
) -> Iterator[Peer]:
    """A gateway over a root; on any port, with TLS if there is a section for it."""
    port = port or find_free_port()
    url = f"grpc{'+tls' if tls else ''}://127.0.0.1:{port}"
    trust = Trust(token)
    if tls is not None:
        assert tls.certificate_file is not None
        assert tls.key_file is not None
        security = Security(tls=read_tls_arguments(tls.certificate_file, tls.key_file, tls.client_ca_file))
        pair = (tls.certificate_file, tls.key_file) if tls.client_ca_file else (None, None)
        trust = Trust(token, True, ca, *pair)
    with ExitStack() as stack:
        forwarding = None
        if policy is OwnershipPolicy.FORWARD:
            forwarding = Forwarding(trust, timeout_seconds)
            stack.callback(forwarding.close)
        options = WriteOptions(ownership=policy, hold_ms=hold_ms, url=url, forwarder=forwarding)
        engine = QueryEngine(Catalog.open(str(root), writing=options))
        stack.callback(engine.close)
        server = GatewayServer(
            engine,
            port=port,
            security=replace(security or Security(), is_valid_pass=partial(token.is_valid_pass, url=url)),
            forwarded=receiving(engine.catalog),
        )
        stack.callback(server.shutdown)
        stack.callback(server.queries.cancel_all, UnavailableError("the test is over"))
        yield Peer(url, engine, server, forwarding)


def make_table(root: Path, *, buckets: int = 1, keyed: bool = True) -> Path:
    """An empty table `events` of ids and texts; without a key, every row that is written twice is seen."""
    number = key_field("id", pa.int64()) if keyed else pa.field("id", pa.int64())
    path = root / f"{TABLE}.lance"
    dataset = lance.write_dataset(pa.schema([number, pa.field("text", pa.string())]).empty_table(), path)
    if buckets > 1:
        dataset.initialize_mem_wal(bucket_column="id", num_buckets=buckets)
    else:
        dataset.initialize_mem_wal()
    return path


def epochs(root: Path) -> list[int]:
    """How often each region of the table was claimed, by its manifest."""
    path = root / f"{TABLE}.lance"
    return [manifests.read_manifest(path, region).writer_epoch for region in manifests.list_region_ids(path)]
