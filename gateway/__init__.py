"""The Flight SQL server, and the command line that starts it and talks to it.

- `server`: decodes the message of each RPC and passes it to its command family.
- `sessions`: the options of a session, and how a call finds its own.
- `protocol`: messages, tickets, errors, types and limits that all families share.
- `execution`: run statements, stream results, execute updates once, cancel.
- `statements`: families that run statements: direct, prepared, as Substrait plans, ingestion.
- `metadata`: families that describe the server and its tables.
- `auth`: who a caller is, and what the caller may see.
- `peers`: rows for regions that other gateways own.
- `config`: what the gateway was told; `start`: from there to a running server.
- `observability`: what an operator sees.
- `cli`: the command line.
"""

import memwal  # noqa: F401 - says what Lance logs, before Lance is imported
