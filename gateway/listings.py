"""Metadata commands: a schema that the protocol prescribes, and rows that are read when somebody asks.

The JDBC driver tells its tools that names are stored in upper case, whatever a server says of itself. They
then ask for `MAIN` and `ORDERS`, and are told of `main` and `orders`, unless something has that very name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from google.protobuf.message import Message
from pyarrow import flight

from gateway.commands import Call, Command, Planned, Ticket
from gateway.patterns import lowered
from gateway.streams import Streams
from gateway.wire import pack

Row: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """One metadata command. The command itself serves as the ticket of its stream.

    Args:
        message: the command.
        schema: of its result.
        rows: its result, in the order that the protocol prescribes, for one caller.
    """

    message: type[Message]
    schema: Callable[[Any], pa.Schema]
    rows: Callable[[Any, Call], Sequence[Row]]

    def command(self) -> Command[Any]:
        """Returns what answers GetSchema and GetFlightInfo."""
        return Command(
            self.message,
            lambda message, _call: self.schema(message),
            lambda message, _call: Planned(self.schema(message), pack(message)),
        )

    def ticket(self, streams: Streams) -> Ticket[Any]:
        """Returns what answers DoGet."""

        def stream(message: Message, call: Call) -> flight.FlightDataStream:
            return streams.listing(self._batch(message, call))

        return Ticket(self.message, stream)

    def _batch(self, message: Message, call: Call) -> pa.RecordBatch:
        schema = self.schema(message)
        rows = self.rows(message, call)
        if not rows and call.settings.type_set == "jdbc":
            rows = self.rows(lowered(message), call)
        columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


class Listings:
    """A command family that consists of listings.

    Args:
        streams: sends their results.
        listings: of the family.
    """

    def __init__(self, streams: Streams, listings: Sequence[Listing]) -> None:
        self._streams = streams
        self._listings = tuple(listings)

    def commands(self) -> tuple[Command[Any], ...]:
        """Returns the descriptor commands of this family."""
        return tuple(listing.command() for listing in self._listings)

    def tickets(self) -> tuple[Ticket[Any], ...]:
        """Returns the tickets of this family."""
        return tuple(listing.ticket(self._streams) for listing in self._listings)
