"""The Flight SQL server, and the command line that starts it and talks to it.

One command family per file, each listing the messages that it answers:

- `statements`: queries without preparation
- `prepared`: prepared statements and their parameters
- `metadata`: catalogs, schemas, tables, table types, primary keys
- `sqlinfo`: what the server can do
- `sessions`: the options of a session and how a call finds its own

`auth` says who a caller is, and what the caller may see.
`server` decodes a message and passes it to its family (`commands`); `tickets` and `wire` say what messages
are; `streams` sends results; `errors` decides what a client sees of a failure; `keeping` bounds what is
remembered. `cli`, `serve`, `shell`, `client` and `render` are the command line.
"""
