"""Found by Spark, which looks for packages of such names: `spark.read.format("lance_gateway")` needs no more.

`pipeline.source.register(spark)` turns on Spark's filter pushdown as well.
"""

from lance_gateway.pipeline.source.datasource import LanceGatewayDataSource as DefaultSource

__all__ = ["DefaultSource"]
