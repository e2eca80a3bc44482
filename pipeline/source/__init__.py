"""The Spark data source `lance_gateway`: tables and queries of a gateway as DataFrames, and back.

- `datasource`: what Spark calls; `registering`: tells a session of it.
- `options`: what a user may say, checked.
- `types`: Arrow types as Spark's, and batches in the types that Spark expects.
- `statement`: the SQL that is sent: columns, conditions; `filters`: Spark's filters as SQL.
- `client`: one connection to a gateway; `failing`: what a Spark user is told.
- `reading`: planning and reading through the gateway; `direct`: executors that read files themselves.
- `writing`: rows to the gateway.

Nothing of it is imported before it is needed: Spark's workers load what a task uses, and no more.
"""

from pipeline.source.datasource import LanceGatewayDataSource, register

__all__ = ["LanceGatewayDataSource", "register"]
