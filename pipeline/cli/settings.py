"""What jobs are told: flags over environment over the `[pipeline.*]` tables of a TOML file over defaults.

The file may be the gateway's: `root` and `storage_options` at its top are for both, and each leaves the
other's tables alone. Every key of a section is a field of the policy that it makes, whose docstring
explains it.
"""

import difflib
import inspect
import os
import re
import tomllib
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.quantities import parse_seconds, parse_size
from lance_gateway.pipeline.keeping.policy import Policies

ENV_PREFIX: Final = "LANCE_GATEWAY_"
FILE_VARIABLE: Final = f"{ENV_PREFIX}CONFIG"
SECTIONS: Final[Mapping[str, type[Any]]] = get_type_hints(Policies)
"""Section -> policy that its keys are fields of."""
_DELIMITER: Final = "__"
_SECONDS: Final = "_seconds"
_BYTES: Final = "_bytes"


@dataclass(frozen=True, slots=True)
class Settings:
    """What jobs are told.

    Attributes:
        root: directory or s3:// prefix of tables.
        storage_options: of the object store, as Lance names them.
        policies: what decides when each job has something to do.
    """

    root: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    policies: Policies = field(default_factory=Policies)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section.

    Attributes:
        section: its table, below `pipeline`.
        name: as it is written.
        attribute: of the section's policy.
        type: of its value.
        default: of the policy.
    """

    section: str
    name: str
    attribute: str
    type: Any
    default: object

    @property
    def dotted(self) -> str:
        """Section and name."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"{ENV_PREFIX}PIPELINE{_DELIMITER}{self.section}{_DELIMITER}{self.name}".upper()

    def parse(self, value: object, source: str) -> object:
        """The value that a text, or what TOML makes of it, stands for.

        Raises:
            InvalidInputError: it stands for none.
        """
        try:
            if self.attribute.endswith(_SECONDS):
                value = parse_seconds(value)
            elif self.attribute.endswith(_BYTES):
                value = parse_size(value)
            elif isinstance(value, str) and get_origin(self.type) in (frozenset, tuple):
                value = [part.strip() for part in value.split(",") if part.strip()]
            return TypeAdapter(self.type).validate_python(value)
        except (ValidationError, ValueError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise InvalidInputError(
                f"{source}: pipeline.{self.dotted} = {value!r}: {reason[0].lower()}{reason[1:]}"
            ) from error


def keys() -> Iterator[Key]:
    """All keys, section by section."""
    for section, policy in SECTIONS.items():
        types = get_type_hints(policy)
        for one in fields(policy):
            name = one.name.removesuffix(_SECONDS)
            yield Key(section, name, one.name, types[one.name], one.default)


def load(flags: Mapping[str, object] | None = None, file: Path | None = None) -> Settings:
    """Read all layers.

    Args:
        flags: of the command line, which win: "root", "storage_options" (a mapping), and keys by section and
            name, such as "merge.batch_rows". None is a flag that was not given.
        file: TOML file; without one, the one that LANCE_GATEWAY_CONFIG names, if it does.

    Raises:
        InvalidInputError: a file that can't be read, keys that don't exist, values that can't be, no root.
    """
    named = os.environ.get(FILE_VARIABLE)
    chosen = Path(named) if file is None and named else file
    content: Mapping[str, Any] = {} if chosen is None else _read(chosen)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    root = given.pop("root", None) or os.environ.get(f"{ENV_PREFIX}ROOT") or content.get("root")
    if not root:
        raise InvalidInputError(
            f"root is not set: give --root, {ENV_PREFIX}ROOT, or root in the configuration file"
        )
    options: dict[str, str] = {}
    for layer in (content.get("storage_options"), _option_variables(), given.pop("storage_options", None)):
        if layer is not None and not isinstance(layer, Mapping):
            raise InvalidInputError(f"storage_options = {layer!r}: it takes a table of texts")
        options |= {name: _text(value) for name, value in (layer or {}).items()}
    written = [
        *_in_file(content.get("pipeline", {}), str(chosen)),
        *_in_environment(),
        *((dotted, value, _flag(dotted)) for dotted, value in given.items()),
    ]
    known = {one.dotted: one for one in keys()}
    values: dict[str, dict[str, object]] = {section: {} for section in SECTIONS}
    for dotted, value, source in written:
        key = known.get(dotted)
        if key is None:
            raise InvalidInputError(f"{source}: the key pipeline.{dotted} does not exist: {_hint(dotted)}")
        values[key.section][key.attribute] = key.parse(value, source)
    policies = Policies(**{section: _policy(section, found) for section, found in values.items()})
    return Settings(str(root), options, policies)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _policy(section: str, values: Mapping[str, object]) -> Any:  # noqa: ANN401 - one of the policies
    try:
        return SECTIONS[section](**values)
    except InvalidInputError as error:
        raise InvalidInputError(f"[pipeline.{section}]: {error}") from error


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"configuration file {str(file)!r} does not exist: name another with --config or {FILE_VARIABLE}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"configuration file {str(file)!r} is not TOML: {error}") from error
    except OSError as error:
        raise InvalidInputError(
            f"configuration file {str(file)!r} can't be read: {error.strerror}"
        ) from error


def _in_file(tables: object, source: str) -> Iterator[tuple[str, object, str]]:
    for section, content in tables.items() if isinstance(tables, Mapping) else [("", tables)]:
        if section not in SECTIONS:
            close = difflib.get_close_matches(section, SECTIONS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(SECTIONS)}"
            raise InvalidInputError(f"{source}: the table [pipeline.{section}] does not exist: {hint}")
        if not isinstance(content, Mapping):
            raise InvalidInputError(f"{source}: pipeline.{section} = {content!r}: it is a table")
        for name, value in content.items():
            yield f"{section}.{name}", value, source


def _in_environment() -> Iterator[tuple[str, object, str]]:
    """Keys that variables set; an empty one counts as absent."""
    prefix = f"{ENV_PREFIX}PIPELINE{_DELIMITER}"
    for variable, value in sorted(os.environ.items()):
        if variable.upper().startswith(prefix) and value:
            yield variable.upper().removeprefix(prefix).lower().replace(_DELIMITER, "."), value, variable


def _option_variables() -> Mapping[str, str]:
    prefix = f"{ENV_PREFIX}STORAGE_OPTIONS{_DELIMITER}"
    found = {name.upper(): value for name, value in os.environ.items()}
    return {name.removeprefix(prefix).lower(): one for name, one in found.items() if name.startswith(prefix)}


def _flag(dotted: str) -> str:
    return "--" + dotted.partition(".")[2].replace("_", "-")


def _hint(dotted: str) -> str:
    section, _, name = dotted.partition(".")
    siblings = [key.name for key in keys() if key.section == section]
    close = difflib.get_close_matches(name, siblings, n=1)
    if close:
        return f"did you mean {section}.{close[0]}?"
    everywhere = difflib.get_close_matches(dotted, [key.dotted for key in keys()], n=1)
    if everywhere:
        return f"did you mean {everywhere[0]}?"
    return f"there are: {', '.join(siblings)}" if siblings else f"sections are {', '.join(SECTIONS)}"


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
        parts += [_row(key, meanings[key.attribute]) for key in keys() if key.section == section]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _row(key: Key, meaning: str) -> str:
    return f"| `{key.name}` | {_format_default(key)} | {_takes(key)} | {meaning[0].upper()}{meaning[1:]} |"


def _about(policy: type[Any]) -> str:
    return (inspect.getdoc(policy) or "").partition("\n\nAttributes:")[0].strip()


def _meanings(policy: type[Any]) -> Mapping[str, str]:
    attributes = (inspect.getdoc(policy) or "").partition("Attributes:")[2]
    return {name: " ".join(found.split()) for name, found in _PARAGRAPH.findall(attributes)}


def _format_default(key: Key) -> str:
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
        kind = next(arg for arg in get_args(kind) if arg is not type(None))
    if key.attribute.endswith("_seconds"):
        return "a duration such as 30s, 5m or 250ms"
    if key.attribute.endswith("_bytes"):
        return "a size such as 64MiB, or bytes"
    if get_origin(kind) in (frozenset, tuple):
        one = get_args(kind)[0]
        names = [str(item.value) for item in one] if issubclass(one, Enum) else []
        return f"a list of {', '.join(names)}; in a variable, separated by commas"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[kind]
