"""The Flight SQL server, and the command line that starts it and talks to it.

One command family per file, each listing the messages that it answers:

- `statements`: statements without preparation
- `substrait`: plans in place of queries
- `prepared`: prepared statements and plans, and their `parameters`
- `updates`: how statements that change something are executed, once, and what they return
- `ingest`: streams of rows into tables
- `endpoints`: results in several parts, and their renewal
- `metadata`: catalogs, schemas, tables, table types
- `keys_metadata`: primary keys, and foreign keys, of which there are none
- `xdbc_types`: the types that a result can have
- `sqlinfo`: what the server can do
- `transactions`: refused, with the way out
- `cancellation`: stopping the statement of a FlightInfo
- `kill`: stopping a statement by its id, as a statement
- `sessions`: the options of a session and how a call finds its own
- `forwarding`: rows for regions that other gateways own, `once` however often they arrive

Metadata families are `listings`, which callers narrow by `patterns`; `sql_types` names types in SQL, and
`column_metadata` describes columns by them.

`queries` runs statements under `limits`. `auth` says who a caller is, and what the caller may see;
`observability` shows an operator what goes on; `config` reads what the gateway was told, `writing` how it
writes.
`server` decodes a message and passes it to its family (`commands`); `tickets` and `wire` say what messages
are; `streams` sends results, `uploads` reads what clients send; `errors` decides what a client sees of a
failure; `keeping` bounds what is remembered. `cli`, `serve`, `shell`, `client` and `render` are the command
line.
"""

import memwal  # noqa: F401 - says what Lance logs, before Lance is imported
