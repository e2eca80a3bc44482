"""The values in effect, with where each comes from; credentials are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.config.loader import Loaded, fields, is_secret

_USER_INFO = re.compile(r"://[^/@\s\"]+@")


@dataclass(frozen=True, slots=True)
class Setting:
    """One key.

    Args:
        key: dotted.
        value: in effect; None where there is none.
        source: flag, variable or file; "default" where nobody set it.
    """

    key: str
    value: object
    source: str

    @property
    def shown(self) -> str | None:
        """The value as TOML writes it; None where there is none."""
        return None if self.value is None else without_password(toml(self.value))


def settings(loaded: Loaded) -> Iterator[Setting]:
    """Yields all keys as a file would list them: those in no section first."""
    options = loaded.config.storage_options
    plain = [key for key, _, _ in fields() if "." not in key and key != "storage_options"]
    nested = [key for key, _, _ in fields() if "." in key]
    for key in plain:
        yield Setting(key, _value(loaded, key), loaded.sources.get(key, "default"))
    for name, value in options.items():
        key = f"storage_options.{name}"
        yield Setting(key, "***" if is_secret(key) else value, loaded.sources.get(key, "default"))
    for key in nested:
        yield Setting(key, _value(loaded, key), loaded.sources.get(key, "default"))


def lines(loaded: Loaded) -> Iterator[str]:
    """Yields a TOML file; keys without a value are comments."""
    section = ""
    for one in settings(loaded):
        table, _, name = one.key.rpartition(".")
        if one.key.startswith("storage_options."):
            table, name = "storage_options", one.key.removeprefix("storage_options.")
        if table != section:
            yield ""
            yield f"[{table}]"
            section = table
        assigned = f"#{name} =" if one.shown is None else f"{name} = {one.shown}"
        yield f"{assigned}  # {one.source}"


def without_password(text: str) -> str:
    """Returns a text without the user and password that URLs in it may carry.

    >>> without_password("http://me:secret@collector:4318")
    'http://***@collector:4318'
    """
    return _USER_INFO.sub("://***@", text)


def toml(value: object) -> str:
    """Writes a value as TOML does.

    >>> toml("text"), toml(True), toml(0.5), toml(("x", "y"))
    ('"text"', 'true', '0.5', '["x", "y"]')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return "{}"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _value(loaded: Loaded, key: str) -> object:
    value: object = loaded.config
    for part in key.split("."):
        value = getattr(value, part)
    return "***" if value and is_secret(key) else value
