"""Options that commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from memwal.errors import InvalidInputError

Tables: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[TABLE]...", help="Tables by name; all of them by default.")
]
Root: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="LANCE_GATEWAY_ROOT", help="Directory or s3://bucket/prefix with <name>.lance tables."
    ),
]
StorageOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="Option of the object store, as Lance names it; may be repeated.",
    ),
]


def storage_options(pairs: list[str] | None) -> dict[str, str]:
    """The pairs as a mapping.

    Raises:
        InvalidInputError: a pair without "=".
    """
    found = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            msg = f"--storage-option {pair!r} is no pair: write it as KEY=VALUE"
            raise InvalidInputError(msg)
        found[key] = value
    return found
