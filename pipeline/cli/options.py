"""Options that commands share, and what a command that fails says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.pipeline.jobs.runners import Runner, Threads

if TYPE_CHECKING:
    from rich.console import Console

    from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
    from lance_gateway.pipeline.jobs.progress import JobTracker
    from lance_gateway.pipeline.keeping import Policies


@contextmanager
def exit_on_failure() -> Iterator[None]:
    """End the program with one line on stderr and status 1 when the block fails in a known way."""
    try:
        yield
    except LanceGatewayError as error:
        _print_report(error)
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
    from lance_gateway.pipeline.jobs.lake import NoMemWalError  # noqa: PLC0415 - keeps --help quick

    has_failed = False
    for table in tables:
        try:
            job(table)
        except LanceGatewayError as error:
            if are_named or not isinstance(error, NoMemWalError):
                _print_report(error)
                has_failed = True
    if has_failed:
        raise typer.Exit(1)


def _print_report(error: LanceGatewayError) -> None:
    typer.echo("error: " + " ".join(str(error).split()), err=True)


Master: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Run parts on Spark's executors: local[*], spark://host:port, yarn. Under spark-submit they do."
    ),
]

Archive: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="FILE",
        help="Ship executors of a cluster this Python and its packages: see lance-gateway pipeline archive.",
    ),
]


@contextmanager
def open_runner(master: str | None, archive: str | None = None) -> Iterator[Runner]:
    """The runner of a command; a Spark session that was started for it ends with the block.

    Args:
        master: of Spark; None for threads of this process, unless spark-submit started it.
        archive: with the Python of executors; None where they have one.

    Raises:
        InvalidInputError: there is no such archive, or there are no executors to ship it to.
        PreconditionError: pyspark or a JDK is missing.
        UnavailableError: Spark does not start.
    """
    from lance_gateway.pipeline.spark.session import is_submitted, open_session  # noqa: PLC0415 - keeps --help quick

    if master is None and archive is None and not is_submitted():
        yield Threads()
        return
    from lance_gateway.pipeline.spark.runner import OnSpark  # noqa: PLC0415

    with open_session(master, archive=archive) as spark:
        yield OnSpark(spark)


Tables: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="TABLE", help="Tables by name; all of them by default.")
]
Root: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="LANCE_GATEWAY_ROOT",
        help="Directory, or prefix in s3://, gs:// or az://, of <name>.lance tables.",
    ),
]
RootOrFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--root",
        help="Directory, or prefix in s3://, gs:// or az://, of <name>.lance tables; the file may name it.",
    ),
]
ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file, which may be the gateway's; LANCE_GATEWAY_CONFIG may name it.",
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


def open_tables(
    tables: list[str] | None,
    root: str | None,
    config: Path | None,
    storage_option: list[str] | None,
    keys: Mapping[str, object] | None = None,
) -> tuple[Policies, Lake, tuple[LakeTable, ...]]:
    """Return the settings of jobs, the root, and the tables of a command.

    Args:
        tables: by name; all of them where none is given.
        root: of the tables; the configuration may name it.
        config: file of the configuration.
        storage_option: of the object store.
        keys: those that flags set, by section and name; None is a flag that was not given.

    Raises:
        InvalidInputError: a value that can't be, or no root.
        NotFoundError: there is no such root or table.
    """
    from lance_gateway.pipeline.cli.settings import load  # noqa: PLC0415 - keeps --help quick
    from lance_gateway.pipeline.jobs.lake import Lake  # noqa: PLC0415

    options = parse_pairs("--storage-option", storage_option) or None
    settings = load({"root": root, "storage_options": options, **(keys or {})}, config)
    lake = Lake.open(settings.root, settings.storage_options)
    return settings.policies, lake, lake.tables(tables or ())


def open_tracker(lake: Lake, *, is_quiet: bool = False) -> JobTracker:
    """Return what shows the jobs of a command, on stderr and in `system.jobs` of the gateways of the root.

    Args:
        lake: the tables of the root.
        is_quiet: whether nothing is shown on stderr.
    """
    from lance_gateway.memwal.storage.jobs import RunningJobs  # noqa: PLC0415 - keeps --help quick
    from lance_gateway.pipeline.jobs.progress import JobTracker  # noqa: PLC0415

    jobs = RunningJobs(lake.storage)
    return JobTracker(jobs, lambda _line: None) if is_quiet else JobTracker.of_command(jobs)


_PIPE_WIDTH = 100_000
"""Columns of what is not a terminal: nothing is folded there."""


def create_console() -> Console:
    """Return the console of stdout, on which lines are folded only if it is a terminal."""
    from rich.console import Console  # noqa: PLC0415 - keeps --help quick

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def parse_pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Parse the values of a repeated option as a mapping.

    Raises:
        InvalidInputError: a pair without "=".
    """
    found = {}
    for pair in given or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"{option} {pair!r} is not a pair: write it as KEY=VALUE")
        found[key] = value
    return found
