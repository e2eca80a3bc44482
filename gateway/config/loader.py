"""The layers of the configuration: flags over environment over file over defaults."""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource, SettingsError, TomlConfigSettingsSource

from lance_gateway.gateway.config.schema import ENV_DELIMITER, ENV_PREFIX, GatewayConfig
from lance_gateway.gateway.config.value_types import describe
from lance_gateway.memwal.errors import InvalidInputError

FILE_VARIABLE = f"{ENV_PREFIX}CONFIG"
# Those that `lance-gateway sql` reads.
_CLIENT_VARIABLES = frozenset({f"{ENV_PREFIX}PASSWORD", f"{ENV_PREFIX}TOKEN"})
_SECTIONS = tuple(GatewayConfig.model_fields)
# Of the jobs that keep tables healthy, which check it themselves: one file may configure both.
_NEIGHBOUR = "pipeline"
# What Kubernetes sets in every pod when a service is called lance-gateway.
_SERVICE_LINK = re.compile(r"(SERVICE_(HOST|PORT)\w*|PORT(_\d+_(TCP|UDP)\w*)?)$")
_SECRETS = frozenset({"writes.peer_token"})
# Among the options of the object store.
_SECRET = re.compile(
    r"secret|password|token|credential|authorization|connection_string|sas|_key|^key", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Flag:
    """A key that the command line sets.

    Args:
        name: of the flag, for messages.
        key: dotted, such as "server.port".
        value: as given; a table for "storage_options".
    """

    name: str
    key: str
    value: object


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and where its values came from.

    Args:
        config: the values in effect.
        sources: dotted key -> flag, variable or file; keys that are not set are absent.
        file: TOML file; None where there was none.
    """

    config: GatewayConfig
    sources: Mapping[str, str]
    file: Path | None = None


class ConfigError(InvalidInputError):
    """The configuration can't be used: problems, one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def load(flags: Sequence[Flag] = (), file: Path | None = None) -> Loaded:
    """Read and merge all layers of the configuration.

    Args:
        flags: of the command line; they win.
        file: TOML file; without one, the one that LANCE_GATEWAY_CONFIG names, if it does.

    Raises:
        ConfigError: a file that can't be read, unknown keys, values that can't be.
    """
    named = os.environ.get(FILE_VARIABLE)
    if file is None and named:
        file = Path(named)
    problems = list(_find_unknown_variables())
    layers: list[tuple[str, dict[str, Any]]] = []
    if file is not None:
        layers.append((str(file), _read_file(file)))
    layers.append(("", _read_environment(problems)))
    layers += [(flag.name, _nest(flag.key, flag.value)) for flag in flags]
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, layer in layers:
        _overlay(merged, layer)
        for key in _list_keys(layer):
            sources[key] = name or _build_variable_name(key)
    try:
        config = GatewayConfig(**merged)
    except ValidationError as error:
        # The alternatives of a union complain one by one.
        problems += dict.fromkeys(_format_problem(one, sources) for one in error.errors(include_url=False))
    if problems:
        raise ConfigError(problems)
    return Loaded(config, sources, file)


def is_secret(key: str) -> bool:
    """Return whether a key holds credentials, which must not be shown.

    >>> is_secret("storage_options.aws_secret_access_key"), is_secret("storage_options.aws_region")
    (True, False)
    >>> is_secret("storage_options.headers.authorization"), is_secret("storage_options.connection_string")
    (True, True)
    >>> is_secret("tls.key_file"), is_secret("writes.peer_token")
    (False, True)
    """
    if key.startswith("storage_options."):
        return _SECRET.search(key.partition(".")[2]) is not None
    return key in _SECRETS


def list_fields(
    model: type[BaseModel] = GatewayConfig, prefix: str = ""
) -> Iterator[tuple[str, FieldInfo, type[BaseModel]]]:
    """Yield each key with its field and its section, in the order of the schema."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from list_fields(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field, model


def _build_variable_name(key: str) -> str:
    return ENV_PREFIX + key.upper().replace(".", ENV_DELIMITER)


def _find_unknown_variables() -> Iterator[str]:
    for name in sorted(os.environ):
        rest = name.upper().removeprefix(ENV_PREFIX)
        if (
            rest == name.upper()
            or name.upper() in {FILE_VARIABLE, *_CLIENT_VARIABLES}
            or _SERVICE_LINK.match(rest)
        ):
            continue
        first = rest.partition(ENV_DELIMITER)[0].lower()
        if first not in {*_SECTIONS, _NEIGHBOUR}:
            hint = _find_similar_key(
                rest.lower().replace(ENV_DELIMITER, "."), [key for key, _, _ in list_fields()]
            )
            known = _build_variable_name(hint) if hint else "one of those of `lance-gateway config reference`"
            yield f"the variable {name} sets nothing: did you mean {known}?"


def _read_environment(problems: list[str]) -> dict[str, Any]:
    try:
        return EnvSettingsSource(GatewayConfig)()
    except SettingsError as error:
        match = re.search(r'field "(\w+)"', str(error))
        name = _build_variable_name(match[1]) if match else "a variable"
        problems.append(
            f"{name} is not a JSON object; write {name}{ENV_DELIMITER}<KEY>=value, one for each key"
        )
        return {}


def _read_file(file: Path) -> dict[str, Any]:
    if not file.is_file():
        msg = (
            f"configuration file {str(file)!r} does not exist: name another with --config or {FILE_VARIABLE}"
        )
        raise ConfigError([msg])
    try:
        layer = TomlConfigSettingsSource(GatewayConfig, file)()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"configuration file {str(file)!r} is not TOML: {error}"]) from error
    except OSError as error:
        msg = f"configuration file {str(file)!r} can't be read: {error.strerror}"
        raise ConfigError([msg]) from error
    layer.pop(_NEIGHBOUR, None)
    return layer


def _nest(key: str, value: object) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)  # noqa: S101 - a key has at least one part
    return value


def _overlay(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        lower = below.get(key)
        if isinstance(value, Mapping):
            inner = below[key] = dict(lower) if isinstance(lower, Mapping) else {}
            _overlay(inner, value)
        else:
            below[key] = value


def _list_keys(layer: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in layer.items():
        if isinstance(value, Mapping):
            yield from _list_keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _find_similar_key(key: str, keys: Sequence[str]) -> str | None:
    """Return the most similar key: by its whole name, else by its last part."""
    matches = difflib.get_close_matches(key, keys, n=1, cutoff=0.7)
    if not matches:
        last = key.rpartition(".")[2]
        ends = {key.rpartition(".")[2]: key for key in keys}
        matches = [ends[match] for match in difflib.get_close_matches(last, ends, n=1, cutoff=0.75)]
    return matches[0] if matches else None


def _format_problem(error: ErrorDetails, sources: Mapping[str, str]) -> str:
    fields = {key: field for key, field, _ in list_fields()}
    # Members of a union are told apart behind the key itself.
    parts = [str(part) for part in error["loc"]]
    key = ".".join(parts)
    is_option = key.startswith("storage_options.")
    while not is_option and key not in fields and error["type"] != "extra_forbidden" and "." in key:
        key = key.rpartition(".")[0]
    if error["type"] == "missing":
        return (
            f"{key} is not set: give --{key}, {_build_variable_name(key)}, or {key} in the configuration file"
        )
    where = sources.get(key) or sources.get(".".join(parts)) or "the defaults"
    if error["type"] == "extra_forbidden":
        section = key.rpartition(".")[0]
        siblings = (
            [field for field in fields if field.rpartition(".")[0] == section] if section else _SECTIONS
        )
        close = _find_similar_key(key, siblings) or _find_similar_key(key, list(fields))
        hint = f"did you mean {close}?" if close else f"there are: {', '.join(siblings)}"
        if any(source.startswith(f"{key}.") for source in sources):
            where = next(source for one, source in sources.items() if one.startswith(f"{key}."))
        return f"{where}: the key {key} does not exist: {hint}"
    value = error["input"]
    text = "***" if is_secret(".".join(parts)) else repr(value)
    # What pydantic says by itself is what the key takes, in other words.
    reason = f"{error['ctx']['error']}; " if error["type"] == "value_error" else ""
    takes = describe(fields[key]) if key in fields else "a text" if is_option else f"a table [{key}]"
    return f"{where}: {key} = {text}: {reason}it takes {takes}"
