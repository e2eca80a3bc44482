"""Rows of a result in the formats of the HTTP API, one chunk of bytes after the other."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lance_gateway.gateway.protocol.json_values import MAX_CHARS, to_json_value

NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"
PARQUET: Final = "application/vnd.apache.parquet"
CSV: Final = "text/csv"

# The numbers that a double holds exactly, and browsers know no others.
_EXACT = 2**53
# Rows of one line of NDJSON: a page shows the first of them while the next are made.
_ROWS_PER_LINE = 5_000


class Answer:
    """Writes one result; subclasses know a format.

    Args:
        schema: columns of the result.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def begin(self) -> bytes:
        """Return what comes before all rows."""
        return b""

    def write(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Yield the rows of a batch."""
        raise NotImplementedError

    def end(self, summary: dict[str, Any]) -> bytes:  # noqa: ARG002 - most formats have no room for it
        """Return what comes after all rows."""
        return b""

    def fail(self, error: str) -> bytes | None:  # noqa: ARG002 - most formats have no room for it
        """Return what says that no more rows come; None where the format has no words for it."""
        return None


class JsonAnswer(Answer):
    """One JSON object a line: the columns, rows by the thousands, and how it ended.

    Long texts, binaries and vectors are cut, as in `json_values`; the other formats have all of them.
    """

    def begin(self) -> bytes:
        """Return what comes before all rows."""
        columns = [{"name": field.name, "type": str(field.type)} for field in self.schema]
        return _dump({"columns": columns})

    def write(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Yield the rows of a batch."""
        for start in range(0, batch.num_rows, _ROWS_PER_LINE):
            part = batch.slice(start, _ROWS_PER_LINE)
            yield _dump({"rows": list(zip(*map(list_values, part.columns), strict=True))})

    def end(self, summary: dict[str, Any]) -> bytes:
        """Return how the result ended."""
        return _dump(summary)

    def fail(self, error: str) -> bytes:
        """Return what says that no more rows come."""
        return _dump({"error": error})


class CsvAnswer(Answer):
    """Comma-separated values with a line of names; NULL is empty, nested values are JSON."""

    def begin(self) -> bytes:
        """Return what comes before all rows."""
        return self._join([self.schema.names])

    def write(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Yield the rows of a batch."""
        yield self._join(zip(*map(_list_texts, batch.columns), strict=True))

    @staticmethod
    def _join(rows: Iterable[Iterable[object]]) -> bytes:
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        return text.getvalue().encode()


class _FileAnswer(Answer):
    """A format of Arrow's, whose writer writes to a file that is emptied after each batch."""

    def __init__(self, schema: pa.Schema, create: Callable[[Any, pa.Schema], Any]) -> None:
        super().__init__(schema)
        self._sink = _Chunks()
        self._writer = create(self._sink, schema)

    def begin(self) -> bytes:
        """Return what comes before all rows."""
        return self._sink.take()

    def write(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Yield the rows of a batch."""
        self._writer.write_batch(batch)
        yield self._sink.take()

    def end(self, summary: dict[str, Any]) -> bytes:  # noqa: ARG002 - neither has room for it
        self._writer.close()
        return self._sink.take()


class _Chunks(io.RawIOBase):
    """A file that is only appended to, and hands out what was written since."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - a buffer of any kind
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """Return what was written since this was last asked."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Format:
    """A format of answers.

    Attributes:
        media_type: in Accept and Content-Type.
        create: an answer for a schema.
    """

    media_type: str
    create: Callable[[pa.Schema], Answer]


FORMATS: Final = MappingProxyType(
    {
        each.media_type: each
        for each in (
            Format(NDJSON, JsonAnswer),
            Format(ARROW, lambda schema: _FileAnswer(schema, pa.ipc.new_stream)),
            Format(PARQUET, lambda schema: _FileAnswer(schema, pq.ParquetWriter)),
            Format(CSV, CsvAnswer),
        )
    }
)
"""All formats by their media type."""


def list_values(column: pa.Array) -> list[object]:
    """Return the values of a column as JSON has them, whole numbers that doubles can't hold as texts."""
    kind = column.type
    values: list[object]
    if pa.types.is_integer(kind):
        whole: list[int | None] = column.to_pylist()
        values = [v if v is None or -_EXACT <= v <= _EXACT else str(v) for v in whole]
    elif pa.types.is_boolean(kind) or pa.types.is_null(kind) or _is_short_text(column):
        values = column.to_pylist()
    else:
        values = [to_json_value(scalar) for scalar in column]
    return values


def _is_short_text(column: pa.Array) -> bool:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return False
    return (pc.max(pc.utf8_length(column)).as_py() or 0) <= MAX_CHARS


def _list_texts(column: pa.Array) -> list[object]:
    kind = column.type
    if pa.types.is_nested(kind):
        return [None if v is None else json.dumps(v, default=str) for v in column.to_pylist()]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return [None if v is None else v.hex() for v in column.to_pylist()]
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return [None if v is None else str(v) for v in map(to_json_value, column)]
    return list(column.to_pylist())


def _dump(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
