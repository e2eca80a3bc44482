"""Results in parts: several endpoints, which clients may read in parallel.

The session option `endpoints`, or the header `x-lance-gateway-endpoints` of a call, divides the plain scan of
a table into up to so many parts. The ticket of a part contains the statement, its parameters, and the
snapshot that all parts read, so that any gateway over the same root can serve it any number of times, after a
restart too. The rights of the user who redeems it apply. The snapshot is kept open for a while, which is
faster and keeps short-lived log tails readable.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa
from google.protobuf.any_pb2 import Any
from pyarrow import flight

from lance_gateway.gateway.execution.batches import decode_rows, encode_rows
from lance_gateway.gateway.execution.parameters import iterate_rows, restore_parameters
from lance_gateway.gateway.execution.preparation import Preparation
from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.execution.streams import Streams
from lance_gateway.gateway.protocol.commands import (
    STATEMENT_ID_BYTES,
    UNNAMED,
    Action,
    Call,
    Handler,
    PlannedStream,
    Ticket,
    decode_settings,
    encode_settings,
    new_statement_id,
)
from lance_gateway.gateway.protocol.expiring_cache import ExpiringCache
from lance_gateway.gateway.protocol.sql_types import describe_result_schema
from lance_gateway.gateway.protocol.wire import decode, unpack
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.planner.engine import PreparedQuery, SessionSettings
from lance_gateway.planner.plans.scan_parts import ScanPart
from lance_gateway.planner.tables.sources.snapshot import SnapshotDescription
from lance_gateway.protos import flight_pb2
from lance_gateway.protos import gateway_pb2 as own
from lance_gateway.protos.flight_sql import pack

ENDPOINT_SECONDS = 600.0
"""How long the tickets of parts can be redeemed, and again after each renewal."""
_MAX_SNAPSHOTS = 64


class Endpoints:
    """Divides results, and serves their parts."""

    def __init__(
        self,
        preparation: Preparation,
        streams: Streams,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._preparation = preparation
        self._streams = streams
        self._clock = clock
        self._snapshots: ExpiringCache[SnapshotDescription, object] = ExpiringCache(
            _MAX_SNAPSHOTS, ENDPOINT_SECONDS
        )

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (
            Ticket(own.PartTicket, self._stream),
            Action(
                "RenewFlightEndpoint",
                "Let the ticket of an endpoint be good for longer.",
                flight_pb2.RenewFlightEndpointRequest,
                self._renew,
                is_bare=True,
            ),
        )

    def divide_result(
        self,
        sql: str,
        plan: PreparedQuery,
        settings: SessionSettings,
        call: Call,
        parameters: pa.Table | None = None,
    ) -> PlannedStream | None:
        """Divide the result of a statement.

        Args:
            sql: the statement.
            plan: the same, prepared.
            settings: that it was prepared with.
            call: that asks; its settings say how many parts are wanted.
            parameters: one column for each parameter.

        Returns:
            None where one part is wanted, the call is part of a transaction, the statement is executed
            several times, or it is not a plain scan.
        """
        wanted = call.settings.endpoints
        if wanted < 2 or call.transaction is not None or call.temporary:
            return None  # Other gateways don't know what a transaction sees, nor temporary tables.
        if parameters is not None and parameters.num_rows != 1:
            return None
        (values,) = iterate_rows(parameters)
        offer = self._streams.queries.read(sql, call, lambda: plan.parts(wanted, values, call.settings))
        if offer is None:
            return None
        self._snapshots.put(offer.parts[0].snapshot, offer.snapshot)
        expires_at = self._compute_expiry()
        ticket = own.PartTicket(
            query=sql,
            settings=encode_settings(settings),
            parameters=b"" if parameters is None else encode_rows(parameters),
            schema_digest=plan.digest,
            statement_id=new_statement_id(),
            expires_at=_to_milliseconds(expires_at),
        )
        first, *others = (_encode_part(ticket, part) for part in offer.parts)
        records = -1 if offer.rows is None else offer.rows
        return PlannedStream(describe_result_schema(plan), first, tuple(others), expires_at, records)

    def _stream(self, ticket: own.PartTicket, call: Call) -> flight.FlightDataStream:
        self._check(ticket)
        part = ScanPart.from_message(ticket.part)
        settings = decode_settings(ticket.settings)
        bound = decode_rows(ticket.parameters, "the parameters in the ticket") if ticket.parameters else None
        types = () if bound is None else bound.schema.types
        plan = self._preparation.prepare(ticket.query, settings, call, ticket.schema_digest, types)
        if not isinstance(plan, PreparedQuery):
            raise InvalidInputError(f"a ticket of a part cannot execute {ticket.query!r}")
        queries, parameters = self._streams.queries, None
        if bound is not None:
            parameters = restore_parameters(bound, plan.parameter_schema, queries.limits)
        query = queries.redeem_part(ticket.statement_id, part.number, ticket.query, settings, call)

        def readers(query: Query) -> Iterator[pa.RecordBatchReader]:
            snapshot = self._snapshots.get(part.snapshot)
            if snapshot is None:
                snapshot = plan.reopen(part)
                self._snapshots.put(part.snapshot, snapshot)
            for values in iterate_rows(parameters):
                yield plan.execute_part(part, values, settings, query.control, snapshot)

        return self._streams.send(describe_result_schema(plan), query, readers)

    def _renew(self, request: flight_pb2.RenewFlightEndpointRequest, _call: Call) -> bytes:
        endpoint = request.endpoint
        if (
            decode(Any, endpoint.ticket.ticket, "the ticket").TypeName()
            != own.PartTicket.DESCRIPTOR.full_name
        ):
            raise InvalidInputError("the ticket of this endpoint does not expire: there is nothing to renew")
        # An expired ticket can be renewed, too: if its files are gone, redeeming it fails.
        ticket = unpack(own.PartTicket, endpoint.ticket.ticket, "the ticket")
        self._snapshots.get(ScanPart.from_message(ticket.part).snapshot)  # counts as its use
        expires_at = self._compute_expiry()
        ticket.expires_at = _to_milliseconds(expires_at)
        endpoint.ticket.ticket = pack(ticket)
        endpoint.expiration_time.FromDatetime(expires_at)
        return endpoint.SerializeToString()

    def _check(self, ticket: own.PartTicket) -> None:
        if len(ticket.statement_id) != STATEMENT_ID_BYTES:
            raise NotFoundError(UNNAMED)
        late = self._clock() - ticket.expires_at / 1000
        if late >= 0:
            raise NotFoundError(
                f"the ticket expired {late:.0f} s ago: renew endpoints that are read late with "
                "RenewFlightEndpoint, or run the query again"
            )

    def _compute_expiry(self) -> datetime:
        return datetime.fromtimestamp(int(self._clock() + ENDPOINT_SECONDS), UTC)


def _encode_part(ticket: own.PartTicket, part: ScanPart) -> bytes:
    ticket.part.CopyFrom(part.to_message())
    return pack(ticket)


def _to_milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
