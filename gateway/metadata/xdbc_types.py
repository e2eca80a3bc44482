"""The types that a result can have: CommandGetXdbcTypeInfo."""

import pyarrow as pa

from gateway.execution.streams import Streams
from gateway.metadata.listings import Listing, Listings, Row
from gateway.protocol.commands import Call
from gateway.protocol.sql_types import ALL_TYPES, SqlType
from protos import flight_sql_pb2 as sql

_TEXTS = pa.list_(pa.field("item", pa.string(), nullable=False))
_SCHEMA = pa.schema(
    [
        pa.field("type_name", pa.string(), nullable=False),
        pa.field("data_type", pa.int32(), nullable=False),
        pa.field("column_size", pa.int32()),
        pa.field("literal_prefix", pa.string()),
        pa.field("literal_suffix", pa.string()),
        pa.field("create_params", _TEXTS),
        pa.field("nullable", pa.int32(), nullable=False),
        pa.field("case_sensitive", pa.bool_(), nullable=False),
        pa.field("searchable", pa.int32(), nullable=False),
        pa.field("unsigned_attribute", pa.bool_()),
        pa.field("fixed_prec_scale", pa.bool_(), nullable=False),
        pa.field("auto_increment", pa.bool_()),
        pa.field("local_type_name", pa.string()),
        pa.field("minimum_scale", pa.int32()),
        pa.field("maximum_scale", pa.int32()),
        pa.field("sql_data_type", pa.int32(), nullable=False),
        pa.field("datetime_subcode", pa.int32()),
        pa.field("num_prec_radix", pa.int32()),
        pa.field("interval_precision", pa.int32()),
    ]
)
_NULLABLE = 1


class XdbcTypes(Listings):
    """The family with one listing; the same for every caller."""

    def __init__(self, streams: Streams) -> None:
        super().__init__(streams, [Listing(sql.CommandGetXdbcTypeInfo, lambda _: _SCHEMA, _rows)])


def _rows(command: sql.CommandGetXdbcTypeInfo, _call: Call) -> list[Row]:
    return [
        _row(kind)
        for kind in ALL_TYPES
        if not command.HasField("data_type") or command.data_type == kind.number
    ]


def _row(kind: SqlType) -> Row:
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
