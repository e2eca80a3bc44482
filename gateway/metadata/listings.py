"""Metadata commands: a schema that the protocol prescribes, and rows that are read on request.

The JDBC driver tells its tools that names are stored in upper case, whatever a server says of itself. They
then ask for `MAIN` and `ORDERS`, and are told of `main` and `orders`, unless something has that very name.
The listing of types is the same for every caller.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.gateway.execution.streams import Streams
from lance_gateway.gateway.protocol.commands import Call, Command, Handler, PlannedStream, Ticket
from lance_gateway.gateway.protocol.sql_types import ALL_TYPES, SqlType
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import pack

M = TypeVar("M", bound=Message)


def matches(name: str, pattern: str) -> bool:
    r"""Return whether `name` matches a pattern: "%" is any characters, "_" is one, "\" escapes the next.

    >>> matches("orders", "ord%"), matches("orders", "o_ders"), matches("orders", "ord")
    (True, True, False)
    >>> matches("a_b", r"a\_b"), matches("axb", r"a\_b")
    (True, False)
    """
    segments: list[list[str]] = [[]]
    needed = 0
    for token in re.finditer(r"\\.|.", pattern, re.DOTALL):
        mark = token[0]
        if mark == "%":
            # Several in a row mean no more than one.
            if segments[-1] or len(segments) == 1:
                segments.append([])
        else:
            literal = mark[1:] if len(mark) > 1 else mark
            segments[-1].append("." if mark == "_" else re.escape(literal))
            needed += 1
            if needed > len(name):
                return False
    first, *between = ("".join(segment) for segment in segments)
    if not between:
        return re.fullmatch(first, name, re.DOTALL) is not None
    last = between.pop()
    # The leftmost place of a segment is as good as any: atomic groups spare the search of all combinations.
    expression = first + "".join(f"(?>.*?{segment})" for segment in between) + ".*" + last
    return re.fullmatch(expression, name, re.DOTALL) is not None


def is_named(command: Message, field: str, name: str) -> bool:
    """Return whether a command's field equals `name`; an unset field accepts every name."""
    return not command.HasField(field) or getattr(command, field) == name


def is_matched(command: Message, field: str, name: str) -> bool:
    """Return whether the pattern in a command's field matches `name`; an unset field matches every name."""
    return not command.HasField(field) or matches(name, getattr(command, field))


def lower_names(command: M) -> M:
    """Return the command with its upper-case names and patterns in lower case."""
    copy = type(command)()
    copy.CopyFrom(command)
    for field, value in command.ListFields():
        if isinstance(value, str) and value.isupper():
            setattr(copy, field.name, value.lower())
    return copy


def parse_schema(text: str) -> pa.Schema:
    """Return the schema of a listing: names and types of Arrow, with "!" behind what is never NULL.

    >>> columns("table_name string!, key_sequence int32").field("table_name").nullable
    False
    """
    fields = []
    for column in text.split(","):
        name, kind = column.split()
        is_list, alias = kind.startswith("list:"), kind.removeprefix("list:").rstrip("!")
        data_type = pa.type_for_alias(alias)
        if is_list:
            data_type = pa.list_(pa.field("item", data_type, nullable=False))
        fields.append(pa.field(name, data_type, nullable=not kind.endswith("!")))
    return pa.schema(fields)


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

    def list_handlers(self, streams: Streams) -> Sequence[Handler]:
        """Return the handlers of GetSchema and GetFlightInfo, and of DoGet."""
        name = self.message.DESCRIPTOR.name.removeprefix("Command")

        def stream(message: Message, call: Call) -> flight.FlightDataStream:
            rows = streams.queries.read(name, call, lambda: self._build_batch(message, call))
            return streams.send_listing(rows)

        return (
            Command(
                self.message,
                lambda message, _call: self.schema(message),
                lambda message, _call: PlannedStream(self.schema(message), pack(message)),
            ),
            Ticket(self.message, stream),
        )

    def _build_batch(self, message: Message, call: Call) -> pa.RecordBatch:
        schema = self.schema(message)
        rows = self.rows(message, call)
        if not rows and call.settings.type_set == "jdbc":
            rows = self.rows(lower_names(message), call)
        columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


class Listings:
    """A command family that consists of listings."""

    def __init__(self, streams: Streams, listings: Sequence[Listing]) -> None:
        self._streams = streams
        self._listings = tuple(listings)

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return [answer for listing in self._listings for answer in listing.list_handlers(self._streams)]


_SCHEMA = parse_schema(
    "type_name string!, data_type int32!, column_size int32, literal_prefix string, literal_suffix string, "
    "create_params list:string, nullable int32!, case_sensitive bool!, searchable int32!, "
    "unsigned_attribute bool, fixed_prec_scale bool!, auto_increment bool, local_type_name string, "
    "minimum_scale int32, maximum_scale int32, sql_data_type int32!, datetime_subcode int32, "
    "num_prec_radix int32, interval_precision int32"
)
_NULLABLE = 1


class XdbcTypes(Listings):
    """The family with one listing; the same for every caller."""

    def __init__(self, streams: Streams) -> None:
        super().__init__(streams, [Listing(sql.CommandGetXdbcTypeInfo, lambda _: _SCHEMA, _list_rows)])


def _list_rows(command: sql.CommandGetXdbcTypeInfo, _call: Call) -> list[Row]:
    return [
        _build_row(kind)
        for kind in ALL_TYPES
        if not command.HasField("data_type") or command.data_type == kind.number
    ]


def _build_row(kind: SqlType) -> Row:
    smallest, largest = (None, None) if kind.scales is None else kind.scales
    return (
        kind.name,
        kind.number,
        kind.column_size,
        kind.prefix,
        kind.suffix,
        kind.parameters,
        _NULLABLE,
        kind.is_text,
        kind.searchable,
        kind.unsigned,
        kind.is_fixed,
        # No column of any type fills itself; to other types than numbers the question does not apply.
        None if kind.radix is None else False,
        None,
        smallest,
        largest,
        kind.sql_data_type,
        kind.subcode,
        kind.radix,
        kind.interval_precision,
    )
