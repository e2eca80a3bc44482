"""What an operator sees of a running gateway.

- `rpcs`: every call of a client, as those who watch calls hear of it
- `metrics`, `gauges`: Prometheus metrics, counted as things happen or looked up when they are asked for
- `writes`: the same for what writers do
- `http`, `readiness`: `/metrics`, `/livez`, `/readyz` and `/healthz` on a port of their own
- `logs`: which statement a thread serves, lines that name their statement, one line per finished statement,
  and one per statement that writes
- `tracing`: OpenTelemetry spans, where a collector is configured
- `system_tables`: `system.queries`, `system.sessions`, `system.settings`
"""
