"""Tells a Spark session of the data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.source.datasource import LanceGatewayDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
