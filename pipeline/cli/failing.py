"""What a command that fails says: one line on stderr, and status 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from memwal.errors import LanceGatewayError


@contextmanager
def failing() -> Iterator[None]:
    """End the program with one line on stderr and status 1 when the block fails in a known way."""
    try:
        yield
    except LanceGatewayError as error:
        typer.echo("error: " + " ".join(str(error).split()), err=True)
        raise typer.Exit(1) from None
