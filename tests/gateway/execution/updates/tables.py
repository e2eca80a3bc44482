"""What is written to tables, and how many rows they have."""

import pyarrow as pa
from pyarrow import flight

from tests.gateway import rpc


def bound(rows: int) -> pa.Table:
    """Parameters of a statement that takes an id and a text."""
    return pa.table({"1": range(rows), "2": [f"note {number}" for number in range(rows)]})


def count(client: flight.FlightClient, table: str) -> int:
    return int(rpc.query(client, f'SELECT count(*) AS n FROM "{table}"')["n"][0].as_py())
