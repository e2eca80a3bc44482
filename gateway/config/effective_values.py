"""The values in effect, with where each comes from, and the reference of all keys."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic.fields import FieldInfo

from lance_gateway.gateway.config.loader import FILE_VARIABLE, Loaded, is_secret, list_fields
from lance_gateway.gateway.config.schema import ENV_DELIMITER, ENV_PREFIX, GatewayConfig
from lance_gateway.gateway.config.value_types import describe

_USER_INFO = re.compile(r"://[^/@\s\"]+@")


@dataclass(frozen=True, slots=True)
class Setting:
    """One key.

    Args:
        key: dotted.
        value: in effect; None where there is none.
        source: flag, variable or file; "default" if it is not set.
    """

    key: str
    value: object
    source: str

    @property
    def toml_value(self) -> str | None:
        """The value as TOML writes it; None where there is none."""
        return None if self.value is None else strip_password(format_value(self.value))


def list_settings(loaded: Loaded) -> Iterator[Setting]:
    """Yield all keys in the order of a configuration file: those without a section first."""
    options = loaded.config.storage_options
    plain = [key for key, _, _ in list_fields() if "." not in key and key != "storage_options"]
    nested = [key for key, _, _ in list_fields() if "." in key]
    for key in plain:
        yield Setting(key, _get_value(loaded, key), loaded.sources.get(key, "default"))
    for name, value in options.items():
        key = f"storage_options.{name}"
        yield Setting(key, "***" if is_secret(key) else value, loaded.sources.get(key, "default"))
    for key in nested:
        yield Setting(key, _get_value(loaded, key), loaded.sources.get(key, "default"))


def render_lines(loaded: Loaded) -> Iterator[str]:
    """Yield the lines of a TOML file; keys without a value are comments."""
    section = ""
    for setting in list_settings(loaded):
        table, _, name = setting.key.rpartition(".")
        if setting.key.startswith("storage_options."):
            table, name = "storage_options", setting.key.removeprefix("storage_options.")
        if table != section:
            yield ""
            yield f"[{table}]"
            section = table
        assigned = f"#{name} =" if setting.toml_value is None else f"{name} = {setting.toml_value}"
        yield f"{assigned}  # {setting.source}"


def strip_password(text: str) -> str:
    """Remove user names and passwords from URLs in a text.

    >>> without_password("http://me:secret@collector:4318")
    'http://***@collector:4318'
    """
    return _USER_INFO.sub("://***@", text)


def format_value(value: object) -> str:
    """Format a value as TOML.

    >>> toml("text"), toml(True), toml(0.5), toml(("x", "y"))
    ('"text"', 'true', '0.5', '["x", "y"]')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, dict):
        return "{}"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _get_value(loaded: Loaded, key: str) -> object:
    value: object = loaded.config
    for part in key.split("."):
        value = getattr(value, part)
    return "***" if value and is_secret(key) else value


_HEAD = f"""\
# Configuration

A gateway is configured by flags, by environment variables and by a TOML file. Flags win over variables,
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


def render_reference() -> str:
    """Return the reference of all keys in Markdown."""
    return "\n".join([_HEAD, *_render_sections()]).rstrip() + "\n"


def _render_sections() -> Iterator[str]:
    tables: dict[str, list[str]] = {}
    about: dict[str, str] = {"": "Outside of any section."}
    for key, field, model in list_fields():
        table, _, name = key.rpartition(".")
        if model is not GatewayConfig:
            about[table] = inspect.getdoc(model) or ""
        row = f"| `{name}` | {_format_default(field)} | {describe(field)} | {field.description} |"
        tables.setdefault(table, []).append(row)
    for table, rows in tables.items():
        yield f"## `[{table}]`" if table else "## Top level"
        yield f"\n{about[table]}\n"
        yield "| key | default | takes | meaning |\n|---|---|---|---|"
        yield "\n".join(rows) + "\n"


def _format_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "none" if value is None else f"`{format_value(value)}`"
