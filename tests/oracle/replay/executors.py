"""What answers the histories: the engine in this process, a gateway over ADBC, or two gateways by turns."""

import itertools
import random
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa
from pyarrow import flight

from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA
from lance_gateway.planner.access.rights import FULL_ACCESS, Access
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.scans.settings import parse_shortcuts
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import flight_sql_pb2
from tests.gateway import rpc
from tests.support.processes.servers import GatewayProcess, open_connection
from tests.support.stores.distant import DistantBackend

Consistency = Literal["strong", "flushed"]


class Executor(Protocol):
    """Whatever answers SQL about the tables of a schema under a root."""

    schema: str

    def run(
        self,
        sql: str,
        parameters: tuple[pa.Scalar, ...],
        *,
        consistency: Consistency,
        pruning: bool,
        shortcuts: str = "all",
    ) -> pa.Table: ...

    def close(self) -> None: ...


class EngineExecutor:
    """A query engine in this process."""

    def __init__(self, root: Path) -> None:
        self._engine = QueryEngine(Catalog.open(str(root)))
        self.access: Access = FULL_ACCESS
        self.schema = MAIN_SCHEMA

    def run(
        self,
        sql: str,
        parameters: tuple[pa.Scalar, ...],
        *,
        consistency: Consistency,
        pruning: bool,
        shortcuts: str = "all",
    ) -> pa.Table:
        settings = SessionSettings(
            schema=self.schema,
            consistency=consistency,
            region_pruning=pruning,
            shortcuts=parse_shortcuts(shortcuts),
        )
        return self._engine.prepare(sql, settings, self.access).execute(parameters).read_all()

    def close(self) -> None:
        self._engine.close()


class DistantExecutor(EngineExecutor):
    """A query engine in this process, which reads as from an object store; answers come in any order."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        draw = random.Random(0)
        self._engine = QueryEngine(DistantBackend(lambda at: draw.sample([*at], len([*at]))).open(root))


class GatewayExecutor:
    """A gateway in a process of its own, asked over ADBC."""

    def __init__(self, root: Path) -> None:
        self.schema = MAIN_SCHEMA
        self._resources = ExitStack()
        server = self._resources.enter_context(GatewayProcess(root))
        self._connection = self._resources.enter_context(open_connection(server.uri))

    def run(
        self,
        sql: str,
        parameters: tuple[pa.Scalar, ...],
        *,
        consistency: Consistency,
        pruning: bool,
        shortcuts: str = "all",
    ) -> pa.Table:
        self._connection.adbc_connection.set_options(
            **{
                "adbc.flight.sql.session.option.schema": self.schema,
                "adbc.flight.sql.session.option.consistency": consistency,
                "adbc.flight.sql.session.optionbool.region_pruning": "true" if pruning else "false",
                "adbc.flight.sql.session.option.shortcuts": shortcuts,
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


class TwoGatewaysExecutor:
    """Two gateways over one root, between which a load balancer sends every call to the next.

    Statements are prepared, and results are read in as many parts as there are.
    """

    def __init__(self, root: Path) -> None:
        self.schema = MAIN_SCHEMA
        self._resources = ExitStack()
        self._turns = itertools.cycle(
            [
                self._resources.enter_context(
                    flight.FlightClient(self._resources.enter_context(GatewayProcess(root)).uri)
                )
                for _ in range(2)
            ]
        )

    def run(
        self,
        sql: str,
        parameters: tuple[pa.Scalar, ...],
        *,
        consistency: Consistency,
        pruning: bool,
        shortcuts: str = "all",
    ) -> pa.Table:
        headers = {
            "schema": self.schema,
            "consistency": consistency,
            "region_pruning": str(pruning).lower(),
            "shortcuts": shortcuts,
            "endpoints": "3",
        }
        options = flight.FlightCallOptions(
            headers=[(f"x-lance-gateway-{name}".encode(), value.encode()) for name, value in headers.items()]
        )
        request = rpc.packed(flight_sql_pb2.ActionCreatePreparedStatementRequest(query=sql))
        (answer,) = next(self._turns).do_action(
            flight.Action("CreatePreparedStatement", request), options=options
        )
        prepared = rpc.unpacked(flight_sql_pb2.ActionCreatePreparedStatementResult, answer.body.to_pybytes())
        handle = prepared.prepared_statement_handle
        if parameters:
            names = [str(number) for number, _ in enumerate(parameters, start=1)]
            handle = rpc.bind(
                next(self._turns), handle, pa.table([pa.array([one]) for one in parameters], names=names)
            )
        command = rpc.descriptor(
            flight_sql_pb2.CommandPreparedStatementQuery(prepared_statement_handle=handle)
        )
        found = next(self._turns).get_flight_info(command, options)
        return pa.concat_tables(
            next(self._turns).do_get(endpoint.ticket).read_all() for endpoint in found.endpoints
        )

    def close(self) -> None:
        self._resources.close()
