"""What an operator sees of a running gateway.

- `observing`: everything below for one gateway, from its configuration
- `rpcs`: every call of a client, as those who watch calls hear of it
- `current`: which statement a thread serves
- `metrics`, `gauges`: Prometheus metrics, counted as things happen or looked up when they are asked for
- `writes`: the same for what writers do
- `http`, `readiness`: `/metrics`, `/livez`, `/readyz` and `/healthz` on a port of their own
- `logs`: lines that name the statement they belong to, and one line per finished statement
- `audit`: one line per statement that writes
- `tracing`: OpenTelemetry spans, where a collector is configured
- `system_tables`: `system.queries`, `system.sessions`, `system.settings`
"""
