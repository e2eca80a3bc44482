"""The data source as Spark calls it."""

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
        from lance_gateway.pipeline.source.changes import ChangesStreamReader  # noqa: PLC0415
        from lance_gateway.pipeline.source.client import raise_first  # noqa: PLC0415

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
