"""The changes of a table as a stream: its offsets are tokens of states.

A batch is the changes between two tokens, which Spark writes into its checkpoint before it reads them. A task
that is repeated, or a stream that is started again, asks for the changes between the same two states, and
gets the same rows: so a sink that takes each batch once has each change once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.pipeline.source.client import raise_first
from lance_gateway.pipeline.source.options import Options, quote_text
from lance_gateway.pipeline.source.reading import GatewayReader, read_position

_POSITION = "position"


class ChangesStreamReader(DataSourceStreamReader):
    """Reads what changed since the batch before.

    Args:
        options: the table, and the state from which a stream without a checkpoint begins.
        schema: the columns that Spark wants, in this order.

    Raises:
        InvalidInputError: the options are not about changes, or give them an end.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.changes is None:
            raise InvalidInputError(
                "a stream reads changes of a table: give the options changes = 'net' or 'all', and since"
            )
        if options.until is not None:
            raise InvalidInputError("a stream of changes has no end: leave the option until out")
        self._options = options
        self._reader = GatewayReader(options, schema)

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Return the state from which a stream without a checkpoint begins."""
        with raise_first():
            return {_POSITION: read_position(self._options, self._options.since)}

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: ARG002, N802
        """Return the newest state."""
        with raise_first():
            return {_POSITION: read_position(self._options)}

    def partitions(self, start: Mapping[str, str], end: Mapping[str, str]) -> list[InputPartition]:
        """Return the partitions of the changes between two states; each key is in one of them."""
        if start == end:
            return []
        since, until = (quote_text(offset[_POSITION]) for offset in (start, end))
        with raise_first():
            return self._reader.divide_changes(since, until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes, in Arrow batches."""
        return self._reader.read(partition)
