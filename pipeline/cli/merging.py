"""`lance-gateway pipeline merge` and `clean`: generations into the base table, and what is left of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.pipeline.cli.options import (
    Archive,
    ConfigFile,
    Master,
    RootOrFile,
    StorageOptions,
    Tables,
    create_console,
    exit_on_failure,
    for_each,
    open_runner,
    open_tables,
    open_tracker,
)
from lance_gateway.pipeline.jobs.runners import format_count

if TYPE_CHECKING:
    from lance_gateway.pipeline.cleaning import CleanReport, Garbage
    from lance_gateway.pipeline.jobs.lake import LakeTable
    from lance_gateway.pipeline.merging import MergeReport


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
    keep_changes: Annotated[
        str | None,
        typer.Option(help="What lance_changes needs to go on from a state so young stays. 0s."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --delete: remove what an earlier clean --json of one table has listed, and no more.",
        ),
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Kind of garbage; may be repeated. All kinds by default.")
    ] = None,
    master: Master = None,
    archive: Archive = None,
    as_json: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--json", help="Print one JSON document for each table.")
    ] = False,
) -> None:
    """List what nobody needs any more, with reasons and bytes; remove it with --delete.

    Kinds: versions, generations, directories, log, manifests, leftovers. A version of the base table that
    stays keeps the generations by which it is read.
    """
    with exit_on_failure():
        from lance_gateway.pipeline.cleaning import CleanReport, remove  # noqa: PLC0415 - keeps --help quick
        from lance_gateway.pipeline.cleaning import clean as run  # noqa: PLC0415

        if report is not None and not (delete and tables and len(tables) == 1):
            raise InvalidInputError("--report is of one table, and goes with --delete: name the table")
        keys = {
            "clean.grace": grace,
            "clean.older_than": older_than,
            "clean.retain_versions": retain_versions,
            "clean.keep_changes": keep_changes,
            "clean.kinds": ",".join(kind) if kind else None,
        }
        policies, lake, found = open_tables(tables, root, config, storage_option, keys)
        tracker = open_tracker(lake)
        with open_runner(master, archive) as runner:

            def job(table: LakeTable) -> None:
                with tracker.track("clean", table.name) as progress:
                    if report is None:
                        done = run(table, policies.clean, delete=delete, runner=runner, progress=progress)
                    else:
                        listed = _read_report(report, table.name)
                        removed = remove(table, listed, policies.clean, runner=runner, progress=progress)
                        done = CleanReport(table.name, is_removed=True, garbage=removed, kept=())
                typer.echo(json.dumps(_plain(done))) if as_json else _print(done)

            for_each(found, job, are_named=bool(tables))


def _read_report(file: Path, table: str) -> tuple[Garbage, ...]:
    """Return what an earlier look has found, from what `clean --json` printed.

    Raises:
        InvalidInputError: the file can't be read, is no such report, or is of another table.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - keeps --help quick

    from lance_gateway.pipeline.cleaning import Garbage  # noqa: PLC0415

    try:
        report = json.loads(file.read_bytes())
        garbage = TypeAdapter(tuple[Garbage, ...]).validate_python(report["garbage"])
        reported = report["table"]
    except OSError as error:
        raise InvalidInputError(f"report {str(file)!r} can't be read: {error.strerror}") from error
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{str(file)!r} is not a report: give what clean --json has printed"
        ) from error
    if reported != table:
        raise InvalidInputError(f"report {str(file)!r} is of table {reported!r}, not of {table!r}")
    return garbage


def _plain(report: CleanReport) -> dict[str, object]:
    return {
        "table": report.table,
        "removed": report.is_removed,
        "bytes": report.bytes,
        "garbage": [asdict(item) | {"kind": item.kind.value} for item in report.garbage],
        "kept": [asdict(one) | {"kind": one.kind.value} for one in report.kept],
    }


def _print(report: CleanReport) -> None:
    from rich.table import Column, Table  # noqa: PLC0415

    console = create_console()
    if report.garbage:
        path = Column("path", overflow="fold")
        shown = Table("kind", path, "files", "bytes", "reason", box=None, pad_edge=False)
        for item in report.garbage:
            shown.add_row(item.kind.value, item.described, str(item.files), _size(item.bytes), item.reason)
        console.print(shown)
    for kept in report.kept:
        console.print(f"kept {kept.path}: {kept.reason}", soft_wrap=True)
    done = "removed" if report.is_removed else "would be removed; --delete removes them"
    places = "1 place" if len(report.garbage) == 1 else f"{len(report.garbage)} places"
    total = f"{_size(report.bytes)} in {places} {done}"
    console.print(f"{report.table}: {total if report.garbage else 'nothing to remove'}", soft_wrap=True)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def merge(
    tables: Tables = None,
    root: RootOrFile = None,
    config: ConfigFile = None,
    storage_option: StorageOptions = None,
    region: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Merge these regions only; may be repeated.")
    ] = None,
    min_generations: Annotated[
        int | None, typer.Option(help="Merge tables with so many pending generations.")
    ] = None,
    min_rows: Annotated[int | None, typer.Option(help="Merge tables with so many pending rows.")] = None,
    min_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Merge tables with so many pending bytes, such as 64MiB."),
    ] = None,
    max_lag: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Merge tables with a generation older than that, such as 5m."),
    ] = None,
    batch_rows: Annotated[int | None, typer.Option(help="Rows of one commit, about.")] = None,
    batch_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Bytes of one commit, about.")
    ] = None,
    master: Master = None,
    archive: Archive = None,
    *,
    key_index: Annotated[
        bool | None,
        typer.Option(
            "--key-index/--no-key-index", help="Look a few rows of a large table up in an index on its key."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Merge everything that is pending, whatever the file says.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per table.")] = False,
) -> None:
    """Merge flushed generations into the base table.

    Merges everything that is pending, unless one of --min-generations, --min-rows, --min-bytes and --max-lag
    is given: then tables for which none of those given holds are left alone.
    """
    with exit_on_failure():
        from lance_gateway.pipeline.merging import merge as run  # noqa: PLC0415

        keys = {
            "merge.min_generations": 1 if force else min_generations,
            "merge.min_rows": min_rows,
            "merge.min_bytes": min_bytes,
            "merge.max_lag": max_lag,
            "merge.batch_rows": batch_rows,
            "merge.batch_bytes": batch_bytes,
            "merge.use_key_index": key_index,
        }
        policies, lake, found = open_tables(tables, root, config, storage_option, keys)
        tracker = open_tracker(lake)
        with open_runner(master, archive) as runner:

            def one(table: LakeTable) -> None:
                chosen = {"regions": region or ()}
                with tracker.track("merge", table.name) as progress:
                    report = run(table, policies.merge, runner=runner, progress=progress, **chosen)
                typer.echo(json.dumps(_facts(report)) if as_json else _line(report))

            for_each(found, one, are_named=bool(tables))


def _facts(report: MergeReport) -> dict[str, object]:
    return {
        "table": report.table,
        "regions": report.regions,
        "generations": report.generations,
        "commits": len(report.batches),
        "upserted": report.upserted,
        "deleted": report.deleted,
        "left": report.left,
        "seconds": round(report.seconds, 3),
    }


def _line(report: MergeReport) -> str:
    if report.left:
        pending = format_count(report.left, "generation")
        return f"{report.table}: {pending} pending, which is less than what was asked for"
    if not report.batches:
        return f"{report.table}: nothing is pending"
    what, where = format_count(report.generations, "generation"), format_count(report.regions, "region")
    rows = format_count(report.upserted, "row")
    return (
        f"{report.table}: {rows} upserted, {report.deleted:,} deleted: {what} of "
        f"{where} in {format_count(len(report.batches), 'commit')}, {report.seconds:.1f} s"
    )
