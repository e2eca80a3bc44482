"""Opens tables when a gateway starts, in the background, and remembers which were read for the next start."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lance_gateway.gateway.execution.query import Query, QueryState
from lance_gateway.gateway.execution.running_queries import QueryObserver
from lance_gateway.gateway.execution.workers.pool import WorkerPool
from lance_gateway.gateway.execution.workers.remote_query import RemoteQuery
from lance_gateway.gateway.execution.workers.tables_ahead import FIRST_STATEMENT, TablesAhead
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.tables.shared.recent_reads import RecentReads
from lance_gateway.planner.tables.state.catalog import Catalog

logger = logging.getLogger(__name__)

_SAVE_SECONDS = 1.0
_WORKER_SECONDS = 60.0


class OpeningAhead(QueryObserver):
    """Opens the tables that were read last in the front process, as workers do for themselves.

    Args:
        catalog: of the front process.
        pool: the workers; None where statements run in the front process.
        partitions: of every scan there; None for what suits its tables.
    """

    def __init__(self, catalog: Catalog, pool: WorkerPool | None, partitions: int | None) -> None:
        self._reads = RecentReads(catalog.storage.uri, catalog.shared.files)
        self._catalog = catalog
        self._pool = pool
        self._closed = threading.Event()
        self._done = threading.Event()
        # Where there are workers, no statement is planned here.
        planner = None if pool is not None else QueryPlanner(catalog, partitions=partitions)
        self._tables = TablesAhead(catalog, self._reads, self._closed, planner)
        threading.Thread(target=self._run, name="tables-ahead", daemon=True).start()

    def on_finished(self, query: Query) -> None:
        """Remember what a statement has read."""
        if query.state is QueryState.FINISHED:
            for read in query.reads:
                if not TableName.parse(read.table).is_temporary:
                    self._reads.note(read.table, read.columns)

    def wait(self, seconds: float) -> None:
        """Wait until all processes have opened their tables, but no longer than so many seconds."""
        self._done.wait(seconds)

    def close(self) -> None:
        """Stop opening tables, and keep what was read for the next start."""
        self._closed.set()
        self._reads.save()

    def _run(self) -> None:
        count, started = 0, time.monotonic()
        try:
            for name, reason in self._tables.open():
                if reason is None:
                    count += 1
                elif not self._closed.is_set():
                    logger.warning("table %r can't be opened ahead: %s", name, reason)
        except Exception as error:  # noqa: BLE001 - a start does not depend on it
            logger.warning("tables can't be opened ahead: %s", error)
        if self._pool is not None:
            self._pool.wait_opened(started + _WORKER_SECONDS)
            self._ask_workers(self._pool)
        self._done.set()
        logger.info("%d tables were opened ahead in %.2f s", count, time.monotonic() - started)
        while not self._closed.wait(_SAVE_SECONDS):
            self._reads.save()

    def _ask_workers(self, pool: WorkerPool) -> None:
        """Run a statement in each worker at the same time, which opens a channel to each."""
        planner = QueryPlanner(self._catalog, create_query=partial(RemoteQuery, pool))
        workers = len(pool.list_workers())
        try:
            with ThreadPoolExecutor(workers, "first-statement") as threads:
                list(threads.map(lambda _: planner.execute(FIRST_STATEMENT).read_all(), range(workers)))
        except LanceGatewayError as error:
            logger.info("no statement ran ahead: %s", error)  # The gateway is stopping, for instance.
