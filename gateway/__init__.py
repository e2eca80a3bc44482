"""The Flight SQL server, and the command line that starts it and talks to it.

`server` decodes the message of each RPC and passes it to its command family. Families run statements
(`statements`) or describe the server and its tables (`metadata`); they share `protocol` (messages, errors,
types and limits) and `execution` (what runs, streams results, changes something once, and is cancelled).
`auth` says who a caller is, `sessions` what a call has chosen, and `peers` takes rows for regions that other
gateways own. `config` and `start` lead to a running server, `observability` shows it, and `cli` is the
command line.
"""

import lance_gateway.memwal  # noqa: F401 - says what Lance logs, before Lance is imported
