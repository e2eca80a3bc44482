"""The reference of the keys of jobs: docs/pipeline-configuration.md is this text."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin

from pipeline.cli.settings import ENV_PREFIX, FILE_VARIABLE, SECTIONS, Key, keys

_HEAD: Final = f"""\
# Configuration of the pipeline

Jobs are told what to do by flags, by environment variables and by the tables `[pipeline.*]` of a TOML file,
in this order of strength. The file is named by `--config` or `{FILE_VARIABLE}` and may be the gateway's:
its `root` and its `[storage_options]` are for both (see [configuration](configuration.md)), and neither looks
at the other's tables. A key that does not exist is an error that names the closest one.

```toml
root = "s3://lake/tables"

[pipeline.merge]
min_rows = 100_000
max_lag = "1m"

[pipeline.clean]
older_than = "7d"

[pipeline.run]
interval = "10s"
delete = true
http_port = 9090
```

In the environment, a key is `{ENV_PREFIX}PIPELINE__<TABLE>__<KEY>`, such as
`{ENV_PREFIX}PIPELINE__MERGE__MAX_LAG=1m`; an empty variable counts as absent.

This page is printed by `lance-gateway pipeline reference`.
"""
_PARAGRAPH: Final = re.compile(r"\n {4}(\w+): ((?:.|\n {8})+)")


def text() -> str:
    """The reference in Markdown."""
    parts = [_HEAD]
    for section, policy in SECTIONS.items():
        meanings = _meanings(policy)
        parts.append(f"## `[pipeline.{section}]`\n")
        parts.append(_about(policy) + "\n")
        parts.append("| key | default | takes | meaning |\n|---|---|---|---|")
        parts += [_row(one, meanings[one.attribute]) for one in keys() if one.section == section]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _row(key: Key, meaning: str) -> str:
    return f"| `{key.name}` | {_shown(key)} | {_takes(key)} | {meaning[0].upper()}{meaning[1:]} |"


def _about(policy: type[Any]) -> str:
    return (inspect.getdoc(policy) or "").partition("\n\nAttributes:")[0].strip()


def _meanings(policy: type[Any]) -> Mapping[str, str]:
    attributes = (inspect.getdoc(policy) or "").partition("Attributes:")[2]
    return {name: " ".join(found.split()) for name, found in _PARAGRAPH.findall(attributes)}


def _shown(key: Key) -> str:
    if key.default is None:
        return "none"
    if isinstance(key.default, frozenset | tuple):
        return "all"
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    if key.attribute.endswith("_seconds") and isinstance(key.default, float):
        return f'`"{key.default:g}s"`'
    if isinstance(key.default, str):
        return f'`"{key.default}"`'
    return f"`{key.default}`"


def _takes(key: Key) -> str:
    kind = key.type
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if key.attribute.endswith("_seconds"):
        return "a duration such as 30s, 5m or 250ms"
    if key.attribute.endswith("_bytes"):
        return "a size such as 64MiB, or bytes"
    if get_origin(kind) in (frozenset, tuple):
        one = get_args(kind)[0]
        names = [str(item.value) for item in one] if issubclass(one, Enum) else []
        return f"a list of {', '.join(names)}; in a variable, separated by commas"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[kind]
