"""What jobs are told: flags over environment over the `[pipeline.*]` tables of a TOML file over defaults.

The file may be the gateway's: `root` and `storage_options` at its top are for both, and each leaves the
other's tables alone. Every key of a section is a field of the policy that it makes, whose docstring
explains it.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from memwal.errors import InvalidInputError
from memwal.quantities import parse_seconds, parse_size
from pipeline.keeping.policy import Policies

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
            msg = f"{source}: pipeline.{self.dotted} = {value!r}: {reason[0].lower()}{reason[1:]}"
            raise InvalidInputError(msg) from error


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
        msg = f"root is not set: give --root, {ENV_PREFIX}ROOT, or root in the configuration file"
        raise InvalidInputError(msg)
    options: dict[str, str] = {}
    for layer in (content.get("storage_options"), _option_variables(), given.pop("storage_options", None)):
        if layer is not None and not isinstance(layer, Mapping):
            msg = f"storage_options = {layer!r}: it takes a table of texts"
            raise InvalidInputError(msg)
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
        msg = f"[pipeline.{section}]: {error}"
        raise InvalidInputError(msg) from error


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except FileNotFoundError as error:
        msg = (
            f"configuration file {str(file)!r} does not exist: name another with --config or {FILE_VARIABLE}"
        )
        raise InvalidInputError(msg) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"configuration file {str(file)!r} is not TOML: {error}"
        raise InvalidInputError(msg) from error
    except OSError as error:
        msg = f"configuration file {str(file)!r} can't be read: {error.strerror}"
        raise InvalidInputError(msg) from error


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
    siblings = [one.name for one in keys() if one.section == section]
    close = difflib.get_close_matches(name, siblings, n=1)
    if close:
        return f"did you mean {section}.{close[0]}?"
    everywhere = difflib.get_close_matches(dotted, [one.dotted for one in keys()], n=1)
    if everywhere:
        return f"did you mean {everywhere[0]}?"
    return f"there are: {', '.join(siblings)}" if siblings else f"sections are {', '.join(SECTIONS)}"
