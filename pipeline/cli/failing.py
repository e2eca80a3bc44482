"""What a command that fails says: one line on stderr, and status 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from memwal.errors import LanceGatewayError

if TYPE_CHECKING:
    from pipeline.jobs.lake import LakeTable


@contextmanager
def failing() -> Iterator[None]:
    """End the program with one line on stderr and status 1 when the block fails in a known way."""
    try:
        yield
    except LanceGatewayError as error:
        _tell(error)
        raise typer.Exit(1) from None


def for_each(tables: Sequence[LakeTable], job: Callable[[LakeTable], object], *, are_named: bool) -> None:
    """Do something with every table; one that fails does not keep the others from their turn.

    Args:
        tables: which.
        job: what is done.
        are_named: whether somebody asked for just these: tables without MemWAL are passed over otherwise.

    Raises:
        typer.Exit: with status 1, once all had their turn, where one failed; each was told on stderr.
    """
    from pipeline.jobs.state import NoMemWalError  # noqa: PLC0415 - keeps --help quick

    has_failed = False
    for table in tables:
        try:
            job(table)
        except LanceGatewayError as error:
            if are_named or not isinstance(error, NoMemWalError):
                _tell(error)
                has_failed = True
    if has_failed:
        raise typer.Exit(1)


def _tell(error: LanceGatewayError) -> None:
    typer.echo("error: " + " ".join(str(error).split()), err=True)
