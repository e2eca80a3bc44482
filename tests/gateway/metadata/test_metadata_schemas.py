"""Metadata results have the protocol's schemas to the byte, wherever a client meets them.

The schemas in data/metadata_schemas.txt were written from the protocol's text, not from ours.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc

GOLDEN = Path(__file__).parent / "data" / "metadata_schemas.txt"
FLAT = {
    "utf8": pa.string(),
    "bytes": pa.binary(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint32": pa.uint32(),
}


def read_type(tokens: list[str]) -> pa.DataType:
    word = tokens.pop(0)
    if word in FLAT:
        return FLAT[word]
    assert tokens.pop(0) == "<"
    children = [read_field(tokens)]
    while tokens.pop(0) == ",":
        children.append(read_field(tokens))
    if word == "list":
        return pa.list_(*children)
    if word == "map":
        key, value = children
        return pa.map_(key.type, value)
    assert word == "dense_union"
    return pa.dense_union(children)


def read_field(tokens: list[str]) -> pa.Field:
    name, colon = tokens.pop(0), tokens.pop(0)
    assert colon == ":"
    data_type = read_type(tokens)
    required = tokens[:2] == ["not", "null"]
    if required:
        del tokens[:2]
    return pa.field(name, data_type, nullable=not required)


def read_golden() -> Iterator[tuple[Any, pa.Schema]]:
    lines = [line for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#")]
    fields: list[pa.Field] = []
    for line in reversed(lines):
        if line.startswith(" "):
            fields.append(read_field(re.findall(r"\w+|[:<>,]", line)))
            continue
        name, *flags = line.split()
        yield getattr(sql, name)(**dict.fromkeys(flags, True)), pa.schema(fields[::-1])
        fields = []


CASES = list(read_golden())


@pytest.mark.parametrize(
    ("command", "schema"), CASES, ids=[f"{type(one).__name__} {one}".strip() for one, _ in CASES]
)
def test_a_result_has_the_schema_of_the_protocol_to_the_byte(
    wire: flight.FlightClient, command: Any, schema: pa.Schema
) -> None:
    expected = schema.serialize().to_pybytes()
    info = rpc.info(wire, command)
    assert flight_pb2.FlightInfo.FromString(info.serialize()).schema == expected
    answer = wire.get_schema(rpc.descriptor(command)).serialize()
    # A SchemaResult has one field, the bytes of the schema, as a Ticket has.
    assert flight_pb2.Ticket.FromString(answer).ticket == expected
    table = wire.do_get(info.endpoints[0].ticket).read_all()
    assert table.schema.serialize().to_pybytes() == expected
    table.validate(full=True)


def test_every_metadata_command_has_a_schema_here() -> None:
    named = {type(command).__name__ for command, _ in CASES}
    offered = {name for name in sql.DESCRIPTOR.message_types_by_name if name.startswith("CommandGet")}
    assert named == offered
