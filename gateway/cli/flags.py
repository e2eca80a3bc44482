"""Options that commands share because each stands for a key of the configuration."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from gateway.config.loading import Flag
from memwal.errors import InvalidInputError

ConfigFile: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file; LANCE_GATEWAY_CONFIG may name it.")
]
Root: TypeAlias = Annotated[
    str | None, typer.Option(help="Directory or s3://bucket/prefix with <name>.lance tables.")
]
StorageOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="Option of the object store, as Lance names it; may be repeated.",
    ),
]
Sets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any key of the configuration, such as limits.query_timeout=5m; may be repeated.",
    ),
]


def flags_of(
    root: str | None,
    storage_options: list[str] | None,
    sets: list[str] | None,
    keys: dict[str, tuple[str, object]] | None = None,
) -> list[Flag]:
    """Returns the flags that were given.

    Args:
        root: of `--root`.
        storage_options: of `--storage-option`.
        sets: of `--set`.
        keys: flag name -> (key, value) of the others; None is a flag that was not given.

    Raises:
        InvalidInputError: a pair without "=".
    """
    given = {"--root": ("root", root), **(keys or {})}
    flags = [Flag(name, key, value) for name, (key, value) in given.items() if value is not None]
    options = dict(_pair("--storage-option", one) for one in storage_options or [])
    if options:
        flags.append(Flag("--storage-option", "storage_options", options))
    for one in sets or []:
        key, value = _pair("--set", one)
        flags.append(Flag("--set", key, value))
    return flags


def _pair(flag: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InvalidInputError(f"{flag} {text!r} is no pair: write it as KEY=VALUE")
    return key, value
