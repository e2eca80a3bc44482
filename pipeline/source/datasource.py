"""The data source as Spark calls it.

The changes of a table are a stream, whose offsets are tokens of states. A batch is the changes between two
tokens, which Spark writes into its checkpoint before it reads them. A task that is repeated, or a stream that
is started again, asks for the changes between the same two states, and gets the same rows: so a sink that
takes each batch once has each change once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_gateway.pipeline.source.options import Options
    from lance_gateway.pipeline.source.writing import Target
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

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


NAME = "lance_gateway"
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program that offers filters to readers. Spark refuses those that would take some, and are not asked."""


class LanceGatewayDataSource(DataSource):
    """`spark.read.format("lance_gateway")`, `spark.readStream`, `df.write`, and `df.writeStream`.

    Attributes:
        parallelism: partitions where no option says how many; None stands for the cores of this machine.
    """

    parallelism: ClassVar[int | None] = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Columns of what is read; the gateway is asked, and executes nothing."""
        from lance_gateway.pipeline.source.client import raise_first  # noqa: PLC0415 - a registered source costs nothing
        from lance_gateway.pipeline.source.reading import columns_of, reorder_columns  # noqa: PLC0415
        from lance_gateway.pipeline.source.types import spark_schema  # noqa: PLC0415

        with raise_first():
            options = self._options(writing=False)
            return spark_schema(reorder_columns(columns_of(options), options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        from lance_gateway.pipeline.source.client import raise_first  # noqa: PLC0415
        from lance_gateway.pipeline.source.reading import GatewayReader, PushingReader  # noqa: PLC0415

        with raise_first():
            made = PushingReader if _PUSHING in sys.modules else GatewayReader
            return made(self._options(writing=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream of changes."""
        from lance_gateway.pipeline.source.client import raise_first  # noqa: PLC0415
        from lance_gateway.pipeline.source.datasource import ChangesStreamReader  # noqa: PLC0415

        with raise_first():
            return ChangesStreamReader(self._options(writing=False), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's
        """Return the writer of a DataFrame."""
        from lance_gateway.pipeline.source.writing import GatewayWriter  # noqa: PLC0415

        return GatewayWriter(self._target(schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """Return the writer of a stream."""
        from lance_gateway.pipeline.source.writing import GatewayStreamWriter  # noqa: PLC0415

        return GatewayStreamWriter(self._target(schema, overwrite=overwrite))

    def _target(self, schema: StructType, *, overwrite: bool) -> Target:
        from lance_gateway.pipeline.source.client import raise_first  # noqa: PLC0415
        from lance_gateway.pipeline.source.writing import Target  # noqa: PLC0415

        with raise_first():
            return Target.of(self._options(writing=True), schema, overwrite=overwrite)

    def _options(self, *, writing: bool) -> Options:
        from lance_gateway.pipeline.source.options import Options, refuse  # noqa: PLC0415

        refuse(self.options, writing=writing)
        return Options.of(self.options, parallelism=self.parallelism)


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("lance_gateway")` known, with filters and the session's parallelism.

    Args:
        spark: the session; filters are offered to all of its Python data sources from now on.
    """
    spark.conf.set(PUSHDOWN, "true")
    cores = spark.sparkContext.defaultParallelism if hasattr(spark, "_jsparkSession") else None

    class Registered(LanceGatewayDataSource):
        """The same, with what only the driver knows."""

        parallelism = cores

    spark.dataSource.register(Registered)
