"""`lance-gateway pipeline clean`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.failing import failing, for_each
from pipeline.cli.options import (
    ConfigFile,
    Master,
    RootOrFile,
    StorageOptions,
    Tables,
    opened_runner,
    storage_options,
)

if TYPE_CHECKING:
    from pipeline.cleaning import CleanReport

_PIPE_WIDTH = 1000
"""Columns of what is not a terminal: nothing is folded there."""


def clean(
    tables: Tables = None,
    root: RootOrFile = None,
    config: ConfigFile = None,
    storage_option: StorageOptions = None,
    delete: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--delete", help="Remove what is listed; nothing is changed otherwise.")
    ] = False,
    grace: Annotated[
        str | None,
        typer.Option(help="What readers may have found so long ago stays: longer than any query. 15m."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            help="Versions of the base table that are younger stay; 7d, or 0s with --retain-versions."
        ),
    ] = None,
    retain_versions: Annotated[
        int | None, typer.Option(help="So many newest versions of the base table stay.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Kind of garbage; may be repeated. All kinds by default.")
    ] = None,
    master: Master = None,
    as_json: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--json", help="Print one JSON document for each table.")
    ] = False,
) -> None:
    """List what nobody needs any more, with reasons and bytes; remove it with --delete.

    Kinds: versions, generations, directories, log, manifests, leftovers. A version of the base table that
    stays keeps the generations by which it is read.
    """
    with failing():
        from pipeline.cleaning import clean as run  # noqa: PLC0415 - keeps --help quick
        from pipeline.cli.settings import load  # noqa: PLC0415
        from pipeline.jobs.lake import Lake, LakeTable  # noqa: PLC0415
        from pipeline.jobs.progress import on_terminal  # noqa: PLC0415

        flags = {
            "root": root,
            "storage_options": storage_options(storage_option) or None,
            "clean.grace": grace,
            "clean.older_than": older_than,
            "clean.retain_versions": retain_versions,
            "clean.kinds": ",".join(kind) if kind else None,
        }
        settings = load(flags, config)
        found = Lake.open(settings.root, settings.storage_options).tables(tables or ())
        with opened_runner(master) as runner:

            def job(table: LakeTable) -> None:
                policy = settings.policies.clean
                report = run(table, policy, delete=delete, runner=runner, progress=on_terminal)
                if as_json:
                    typer.echo(json.dumps(_plain(report)))
                else:
                    _print(report)

            for_each(found, job, are_named=bool(tables))


def _plain(report: CleanReport) -> dict[str, object]:
    return {
        "table": report.table,
        "removed": report.is_removed,
        "bytes": report.bytes,
        "garbage": [asdict(one) | {"kind": one.kind.value} for one in report.garbage],
        "kept": [asdict(one) | {"kind": one.kind.value} for one in report.kept],
    }


def _print(report: CleanReport) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Column, Table  # noqa: PLC0415

    console = Console(soft_wrap=True, highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    if report.garbage:
        path = Column("path", overflow="fold")
        shown = Table("kind", path, "files", "bytes", "reason", box=None, pad_edge=False)
        for one in report.garbage:
            shown.add_row(one.kind.value, one.described, str(one.files), _size(one.bytes), one.reason)
        console.print(shown)
    for kept in report.kept:
        console.print(f"kept {kept.path}: {kept.reason}")
    done = "removed" if report.is_removed else "would be removed; --delete removes them"
    places = "1 place" if len(report.garbage) == 1 else f"{len(report.garbage)} places"
    total = f"{_size(report.bytes)} in {places} {done}"
    console.print(f"{report.table}: {total if report.garbage else 'nothing to remove'}")


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
