"""The Spark data source `lance_gateway`: tables and queries of a gateway as DataFrames, and back.

Nothing of it is imported before it is needed: Spark's workers load what a task uses, and no more.
"""

from lance_gateway.pipeline.source.datasource import LanceGatewayDataSource, register

__all__ = ["LanceGatewayDataSource", "register"]
