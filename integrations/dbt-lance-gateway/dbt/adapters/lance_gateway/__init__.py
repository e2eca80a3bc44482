"""The adapter of dbt for Lance Gateway.

- `credentials`: what a profile says, and the driver's arguments for it
- `handle`: a connection of the driver, with rows as dbt takes them
- `connections`: opens, cancels and closes connections; statements commit by themselves
- `types`: SQL types of Arrow's
- `columns`, `relations`: columns, tables and views as dbt names them
- `impl`: the adapter
"""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.lance_gateway.credentials import LanceGatewayCredentials
from dbt.adapters.lance_gateway.impl import LanceGatewayAdapter
from dbt.include import lance_gateway

Plugin = AdapterPlugin(
    adapter=LanceGatewayAdapter,
    credentials=LanceGatewayCredentials,
    include_path=lance_gateway.PACKAGE_PATH,
)
"""What dbt looks for."""
