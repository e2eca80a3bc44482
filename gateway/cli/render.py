"""Output of `lance-gateway sql`: a table for readers, or CSV, JSON lines or Arrow for programs."""

import base64
import datetime as dt
import decimal
import json
from collections.abc import Iterable
from enum import StrEnum
from typing import TextIO

import pyarrow as pa
from pyarrow import csv
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lance_gateway.memwal.errors import InvalidInputError

NULL = "NULL"
_UNLIMITED_WIDTH = 100_000


class Format(StrEnum):
    """The formats of the `--format` option."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


def write(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: Format, output: TextIO, *, max_rows: int = 100
) -> int:
    """Write a result and return its number of rows.

    Args:
        schema: columns of the result.
        batches: rows; read to the end, a few at a time.
        form: `table` shows the first `max_rows` rows and counts the others; `json` is one object a line;
            `arrow` is an IPC stream.
        output: where to; `arrow` uses its binary buffer.
        max_rows: rows that a table shows.
    """
    if form is Format.TABLE:
        return _write_table(schema, batches, output, max_rows)
    if form is Format.CSV:
        return _write_csv(schema, batches, output)
    if form is Format.JSON:
        return _write_json(batches, output)
    return _write_arrow(schema, batches, output)


def _write_table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], output: TextIO, max_rows: int) -> int:
    printed: list[dict[int, object]] = []
    total = 0
    for batch in batches:
        total += batch.num_rows
        head = batch.slice(0, max_rows - len(printed))
        # By place: names may repeat.
        columns = [column.to_pylist() for column in head.columns]
        printed.extend(dict(enumerate(row)) for row in zip(*columns, strict=True))
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for field in schema:
        numeric = (
            pa.types.is_integer(field.type)
            or pa.types.is_floating(field.type)
            or pa.types.is_decimal(field.type)
        )
        table.add_column(Text(field.name), justify="right" if numeric else "left", overflow="fold")
    for row in printed:
        table.add_row(*(_format_cell(row[place]) for place in range(len(schema))))
    # Nothing is folded unless the output is a terminal.
    console = Console(file=output, highlight=False, width=None if output.isatty() else _UNLIMITED_WIDTH)
    if len(schema):
        console.print(table)
    rows = f"{total:,} row" + ("" if total == 1 else "s")
    console.print(
        Text(f"({rows})" if total == len(printed) else f"({rows}, the first {len(printed):,} shown)", "dim")
    )
    return total


def _format_cell(value: object) -> Text:
    if value is None:
        return Text(NULL, "dim")
    return Text(value if isinstance(value, str) else _format_scalar(value))


def _format_scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=_to_json, ensure_ascii=False)
    return str(value)


def _write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], output: TextIO) -> int:
    flat = pa.schema(
        [pa.field(field.name, pa.string() if _is_nested(field) else field.type) for field in schema]
    )
    total = 0
    output.write(_format_csv(flat.empty_table(), include_header=True))
    for batch in batches:
        columns = [
            pa.array(
                [None if value is None else _format_scalar(value) for value in column.to_pylist()],
                pa.string(),
            )
            if _is_nested(field)
            else column
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        total += batch.num_rows
        output.write(_format_csv(pa.RecordBatch.from_arrays(columns, schema=flat), include_header=False))
    return total


def _format_csv(rows: pa.RecordBatch | pa.Table, *, include_header: bool) -> str:
    sink = pa.BufferOutputStream()
    csv.write_csv(rows, sink, csv.WriteOptions(include_header=include_header))
    return str(sink.getvalue().to_pybytes().decode())


def _is_nested(field: pa.Field) -> bool:
    return (
        bool(pa.types.is_nested(field.type))
        or pa.types.is_binary(field.type)
        or pa.types.is_large_binary(field.type)
    )


def _write_json(batches: Iterable[pa.RecordBatch], output: TextIO) -> int:
    total = 0
    for batch in batches:
        output.writelines(
            json.dumps(row, default=_to_json, ensure_ascii=False) + "\n" for row in batch.to_pylist()
        )
        total += batch.num_rows
    return total


def _to_json(value: object) -> object:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal | dt.timedelta):
        return str(value)
    return str(value)


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], output: TextIO) -> int:
    if output.isatty():
        raise InvalidInputError(
            "format arrow is binary and this is a terminal: redirect it to a file or a program"
        )
    total = 0
    with pa.ipc.new_stream(output.buffer, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            total += batch.num_rows
    return total
