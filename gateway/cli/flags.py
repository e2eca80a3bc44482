"""Options that commands share because each stands for a key of the configuration."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from gateway.config.loader import Flag
from pipeline.cli.options import pairs

ConfigFile: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file; LANCE_GATEWAY_CONFIG may name it.")
]
Root: TypeAlias = Annotated[
    str | None, typer.Option(help="Directory or s3://bucket/prefix with <name>.lance tables.")
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
    options = pairs("--storage-option", storage_options)
    if options:
        flags.append(Flag("--storage-option", "storage_options", options))
    flags += [Flag("--set", key, value) for key, value in pairs("--set", sets).items()]
    return flags
