"""Wire messages, generated from the `.proto` files in this folder by `make protos`.

- `mem_wal_pb2`: region manifests, MemWAL index details, and the fields of a base table's manifest that lead
  to them.
- `flight_pb2` and `flight_sql_pb2`: what travels inside Flight tickets, descriptors and actions.
- `gateway_pb2`: the gateway's own tickets and handles.
- `forwarding_pb2`: rows between gateways.
- `flight_sql`: packed messages and the calls of a client, written by hand.
- `generate`: the script that writes these modules, and with `--check` verifies that they are up to date.
"""
