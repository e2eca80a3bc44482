"""Everything that watches one gateway, from its configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyarrow import flight

from lance_gateway.gateway.auth.calls import METHODS, RpcObserver, Security
from lance_gateway.gateway.config.effective_values import strip_password
from lance_gateway.gateway.config.loader import Loaded
from lance_gateway.gateway.config.schema import choose_http_port
from lance_gateway.gateway.config.sections.observability import ObservabilitySection
from lance_gateway.gateway.execution.running_queries import QueryObserver
from lance_gateway.gateway.observability.disks import Disks, list_disk_directories
from lance_gateway.gateway.observability.gauges import Gauges, WriteEvents, WriteGauges, WriteMetrics
from lance_gateway.gateway.observability.history import History
from lance_gateway.gateway.observability.hosts import HostCheck
from lance_gateway.gateway.observability.http import HttpServer, Readiness
from lance_gateway.gateway.observability.statements import Metrics, QueryLog, WriteAudit
from lance_gateway.gateway.protocol.errors import QueryCancelledError
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.gateway.start.opening import is_loopback
from lance_gateway.memwal.errors import copy_error
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.plans.query_planner import CreateQuery, CreateUnbound
from lance_gateway.planner.tables.state.catalog import Catalog

if TYPE_CHECKING:
    from lance_gateway.gateway.observability.console.jobs.supervisor import Supervisor
    from lance_gateway.gateway.observability.console.visits import Visits
    from lance_gateway.gateway.observability.tracing import Tracing

logger = logging.getLogger(__name__)


class Observability:
    """Metrics, logs and traces of a server; created before it, closed after it.

    Attributes:
        metrics: what `/metrics` shows.
        readiness: what `/readyz` says.
        http: where both are shown; None where nowhere.
        catalog: of the gateway.

    Args:
        config: what is watched, and where it is shown.
        catalog: of the gateway.
        flight_port: as configured; the HTTP port may follow from it.
        writes: events of the catalog's writers; None if they have no observers.
        is_open: whether callers need no credentials.

    Raises:
        UnavailableError: the HTTP port is taken.
    """

    def __init__(
        self,
        config: ObservabilitySection,
        catalog: Catalog,
        flight_port: int,
        writes: WriteEvents | None = None,
        *,
        is_open: bool = False,
    ) -> None:
        self.metrics = Metrics()
        self.readiness = Readiness(catalog.storage)
        self.catalog = catalog
        self._log = QueryLog(config.log_queries, config.slow_query)
        self._audit = WriteAudit()
        self._tracing: Tracing | None = None
        self._history: History | None = None
        self._visits: Visits | None = None
        self._jobs: Supervisor | None = None
        self._disks = Disks(list_disk_directories(catalog))
        port = choose_http_port(config, flight_port)
        self.http: HttpServer | None = None
        if port is not None:
            self.http = HttpServer(
                self.metrics.registry,
                self.readiness,
                config.http_host,
                port,
                max_connections=config.http_connections,
                hosts=HostCheck.of((config.http_host, *config.http_names)) if is_open else None,
            )
            host = f"[{config.http_host}]" if ":" in config.http_host else config.http_host
            logger.info("metrics and health at http://%s:%d", host, self.http.port)
        if config.otlp_endpoint:
            # The SDK takes a while to load: only those who trace wait for it.
            from lance_gateway.gateway.observability.tracing import Tracing  # noqa: PLC0415

            self._tracing = Tracing(config.otlp_endpoint, config.otlp_sample_ratio)
            logger.info("traces go to %s", strip_password(config.otlp_endpoint))
        if writes is not None:
            writes.listen(
                WriteMetrics(
                    self.metrics.registry,
                    lambda: [one.name for one in catalog.list_open_tables() if not one.name.is_temporary],
                )
            )
            if self._tracing is not None:
                writes.listen(self._tracing)

    def create_engine(
        self,
        partitions: int | None,
        memory_bytes: int | None,
        create_query: CreateQuery = PreparedQuery,
        create_unbound: CreateUnbound | None = None,
    ) -> QueryEngine:
        """Return an engine over the catalog, which traces planning if traces are exported.

        Args:
            partitions: of every scan, None for one per core.
            memory_bytes: what one statement may use before it spills to disk; None for no limit.
            create_query: plans queries; by default in this process.
            create_unbound: binds and plans long statements; None binds all of them in this process.
        """
        if self._tracing is None:
            return QueryEngine(
                self.catalog,
                partitions=partitions,
                memory_bytes=memory_bytes,
                create_query=create_query,
                create_unbound=create_unbound,
            )
        from lance_gateway.gateway.observability.tracing import TracedEngine  # noqa: PLC0415 - loaded already

        return TracedEngine(
            self._tracing,
            self.catalog,
            partitions=partitions,
            memory_bytes=memory_bytes,
            create_query=create_query,
            create_unbound=create_unbound,
        )

    def list_query_observers(self) -> Sequence[QueryObserver]:
        """Return the observers of statements."""
        traces = () if self._tracing is None else (self._tracing,)
        return (self._log, self._audit, self.metrics, *traces)

    def map_rpc_observers(self) -> Mapping[flight.FlightMethod, Sequence[RpcObserver]]:
        """Return the observers of calls, by method; the server itself reports all but handshakes."""
        traces = () if self._tracing is None else (self._tracing,)
        return dict.fromkeys(METHODS, traces) | {flight.FlightMethod.HANDSHAKE: (self.metrics, *traces)}

    def watch(self, server: GatewayServer) -> None:
        """Export the state of a server."""
        self.metrics.registry.register(Gauges(server.queries, server.sessions, server.prepared, self.catalog))
        self.metrics.registry.register(WriteGauges(self.catalog))
        self.metrics.registry.register(self._disks)
        self.readiness.start()

    def offer_console(self, loaded: Loaded, security: Security, server: GatewayServer) -> None:
        """Serve the console on the HTTP port, unless that is off or would let strangers in.

        Args:
            loaded: all of the configuration.
            security: of the Flight SQL server, whose users the console has.
            server: of Flight SQL, which the console is a client of.
        """
        config = loaded.config
        host = config.observability.http_host
        if self.http is None or not config.observability.console:
            return
        if config.tls.client_ca_file is not None:
            # The gateway's own port would take the console for the holder of a certificate.
            logger.info("no console: clients need certificates, which the HTTP port does not ask for")
            return
        if security.authenticator is None and not (is_loopback(host) or config.auth.insecure):
            logger.warning("no console: %s can be reached by others, and no authentication is set", host)
            return
        # Loading it takes a while, and takes memory: only those who offer it wait for it.
        from lance_gateway.gateway.observability.console.app import Console  # noqa: PLC0415
        from lance_gateway.gateway.observability.console.jobs.commands import JobSettings  # noqa: PLC0415
        from lance_gateway.gateway.observability.console.jobs.routes import JobRoutes  # noqa: PLC0415
        from lance_gateway.gateway.observability.console.jobs.supervisor import Supervisor  # noqa: PLC0415
        from lance_gateway.gateway.observability.console.sessions import ConsoleSessions  # noqa: PLC0415
        from lance_gateway.gateway.observability.console.statements import OwnGateway  # noqa: PLC0415
        from lance_gateway.gateway.observability.console.visits import Visits  # noqa: PLC0415

        gateway = OwnGateway.locate(config.server.host, server.port, is_encrypted=bool(security.tls))
        self._history = History(self.metrics.registry, read_users=self.metrics.read_users)
        sessions = ConsoleSessions(gateway, security.authenticator)
        left = QueryCancelledError("the client of the HTTP port cancelled the request, or went away")
        self._visits = visits = Visits(lambda name: server.queries.cancel_request(name, copy_error(left)))
        self._jobs = Supervisor(JobSettings.read(loaded))
        jobs = JobRoutes(sessions, visits, self._jobs, security.access)
        console = Console(sessions, visits, self._history, security.access)
        self.http.offer([*jobs.list_routes(), *console.list_routes()])
        shown = f"[{host}]" if ":" in host else host
        logger.info("console at http://%s:%d/console/", shown, self.http.port)

    def close(self) -> None:
        """Export the last spans, end jobs that users started, and stop serving metrics."""
        if self._tracing is not None:
            self._tracing.close()
        if self._jobs is not None:
            self._jobs.close()
        if self.http is not None:
            self.http.close()
        if self._visits is not None:
            self._visits.close()
        if self._history is not None:
            self._history.close()
        self._disks.close()
        self.readiness.close()
