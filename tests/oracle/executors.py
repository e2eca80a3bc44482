"""What answers the histories' SQL: the engine in this process, or a gateway over ADBC."""

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from planner.access import FULL_ACCESS, Access
from planner.catalog import Catalog
from planner.engine import QueryEngine, SessionSettings
from tests.oracle.machine import Consistency
from tests.support.servers import GatewayProcess, connected


class EngineExecutor:
    """A query engine in this process."""

    def __init__(self, root: Path) -> None:
        self._engine = QueryEngine(Catalog.open(str(root)))
        self.access: Access = FULL_ACCESS

    def run(
        self, sql: str, parameters: tuple[pa.Scalar, ...], *, consistency: Consistency, pruning: bool
    ) -> pa.Table:
        settings = SessionSettings(consistency=consistency, region_pruning=pruning)
        return self._engine.prepare(sql, settings, self.access).execute(parameters).read_all()

    def close(self) -> None:
        self._engine.close()


class GatewayExecutor:
    """A gateway in a process of its own, asked over ADBC."""

    def __init__(self, root: Path) -> None:
        self._resources = ExitStack()
        server = self._resources.enter_context(GatewayProcess(root))
        self._connection = self._resources.enter_context(connected(server.uri))

    def run(
        self, sql: str, parameters: tuple[pa.Scalar, ...], *, consistency: Consistency, pruning: bool
    ) -> pa.Table:
        self._connection.adbc_connection.set_options(
            **{
                "adbc.flight.sql.session.option.consistency": consistency,
                "adbc.flight.sql.session.optionbool.region_pruning": "true" if pruning else "false",
            }
        )
        with self._connection.cursor() as cursor:
            if parameters:
                names = [str(number) for number in range(1, len(parameters) + 1)]
                row = pa.record_batch([pa.array([value]) for value in parameters], names=names)
                cursor.execute(sql, row)
            else:
                cursor.execute(sql)
            return cursor.fetch_arrow_table()

    def close(self) -> None:
        self._resources.close()
