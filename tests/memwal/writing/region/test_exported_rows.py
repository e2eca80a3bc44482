"""Rows on their way to Lance's writers, which panic over decimals at odd addresses."""

from decimal import Decimal

import pyarrow as pa
import pytest

from lance_gateway.memwal.columns.lance_rows import export_rows

DECIMAL = pa.decimal128(10, 2)
VALUES = [Decimal("1.50"), None, Decimal("-7.25")]
COLUMNS = {
    "plain": pa.array(VALUES, DECIMAL),
    "list": pa.array([VALUES, None, []], pa.list_(DECIMAL)),
    "fixed list": pa.array([VALUES[:2], None, VALUES[1:]], pa.list_(DECIMAL, 2)),
    "struct": pa.array([{"a": one} for one in VALUES], pa.struct({"a": DECIMAL})),
    "map": pa.array([[("a", one)] for one in VALUES], pa.map_(pa.string(), DECIMAL)),
    "dictionary": pa.array(VALUES, DECIMAL).dictionary_encode(),
}


def moved(column: pa.Array) -> pa.Array:
    """The same values, whose buffers begin at odd addresses, as they may behind a message's header."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"c": column.type})) as stream:
        stream.write_batch(pa.record_batch({"c": column}))
    message = pa.py_buffer(b"\0" * 8 + sink.getvalue().to_pybytes())
    return pa.ipc.open_stream(message.slice(8)).read_next_batch()["c"]


def addresses(batch: pa.RecordBatch) -> list[int]:
    return [one.address for column in batch.columns for one in column.buffers() if one is not None]


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS.keys())
def test_decimals_are_aligned_wherever_they_are_held(column: pa.Array) -> None:
    table = pa.table({"c": moved(column)})
    assert any(one % 64 for one in addresses(table.to_batches()[0]))
    (batch,) = export_rows(table, table.schema)
    assert not any(one % 64 for one in addresses(batch))
    assert batch["c"].to_pylist() == column.to_pylist()


def test_a_column_called_decimal_is_left_where_it_is() -> None:
    table = pa.table({"c": moved(pa.array([{"decimal": 1}], pa.struct({"decimal": pa.int64()})))})
    (batch,) = export_rows(table, table.schema)
    assert addresses(batch) == addresses(table.to_batches()[0])
