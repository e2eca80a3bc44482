"""The reference of all keys: docs/configuration.md is this text."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from pydantic.fields import FieldInfo

from gateway.config.effective_values import toml
from gateway.config.loader import FILE_VARIABLE, fields
from gateway.config.schema import ENV_DELIMITER, ENV_PREFIX, GatewayConfig
from gateway.config.values import describe

_HEAD = f"""\
# Configuration

A gateway is told what to do by flags, by environment variables and by a TOML file. Flags win over variables,
variables over the file, the file over the defaults. Only `root` must be set.

```console
$ lance-gateway serve --root /data/tables
$ lance-gateway serve --config gateway.toml --set limits.query_timeout=5m
$ {ENV_PREFIX}ROOT=/data/tables {ENV_PREFIX}SERVER{ENV_DELIMITER}PORT=4000 lance-gateway serve
```

- **File**: named by `--config` or `{FILE_VARIABLE}`. Sections are TOML tables. Those of the pipeline,
  `[pipeline.*]`, may stand in the same file ([their reference](pipeline-configuration.md)); a gateway leaves
  them alone.
- **Environment**: `{ENV_PREFIX}` and the key in capitals, `{ENV_DELIMITER}` between section and name. An
  empty variable counts as absent. Storage options are set one by one
  (`{ENV_PREFIX}STORAGE_OPTIONS{ENV_DELIMITER}AWS_REGION`) or as one JSON object.
- **Flags**: `--set KEY=VALUE` sets any key; the common ones have flags of their own
  (`lance-gateway serve --help`).

A key that does not exist is an error that names the closest one; a value that can't be is an error that names
the file, variable or flag it stands in. `lance-gateway config check` finds both, and looks whether the root,
the files, the certificates, the policy and the ports are as they must be. `lance-gateway config show` prints
the values in effect with where each comes from, without credentials.

```toml
root = "s3://lake/tables"

[storage_options]
aws_region = "eu-central-1"

[server]
host = "0.0.0.0"

[tls]
certificate_file = "/etc/lance-gateway/tls.crt"
key_file = "/etc/lance-gateway/tls.key"

[auth]
users_file = "/etc/lance-gateway/users.toml"
policy_file = "/etc/lance-gateway/policy.toml"

[limits]
query_timeout = "5m"
query_memory_bytes = "2GiB"

[observability]
http_host = "0.0.0.0"
log_format = "json"
```

This page is printed by `lance-gateway config reference`.
"""


def text() -> str:
    """Returns the reference in Markdown."""
    return "\n".join([_HEAD, *_sections()]).rstrip() + "\n"


def _sections() -> Iterator[str]:
    tables: dict[str, list[str]] = {}
    about: dict[str, str] = {"": "Outside of any section."}
    for key, field, model in fields():
        table, _, name = key.rpartition(".")
        if model is not GatewayConfig:
            about[table] = inspect.getdoc(model) or ""
        row = f"| `{name}` | {_default(field)} | {describe(field)} | {field.description} |"
        tables.setdefault(table, []).append(row)
    for table, rows in tables.items():
        yield f"## `[{table}]`" if table else "## Top level"
        yield f"\n{about[table]}\n"
        yield "| key | default | takes | meaning |\n|---|---|---|---|"
        yield "\n".join(rows) + "\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "none" if value is None else f"`{toml(value)}`"
