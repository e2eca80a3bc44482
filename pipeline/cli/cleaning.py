"""`lance-gateway pipeline clean`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from memwal.errors import InvalidInputError
from pipeline.cli.failing import failing
from pipeline.cli.options import Root, StorageOptions, Tables, storage_options
from pipeline.cli.runner import Master, opened_runner

if TYPE_CHECKING:
    from pipeline.cleaning import CleanPolicy, CleanReport


def clean(
    root: Root,
    tables: Tables = None,
    storage_option: StorageOptions = None,
    delete: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--delete", help="Remove what is listed; nothing is changed otherwise.")
    ] = False,
    grace: Annotated[
        str, typer.Option(help="What readers may have found so long ago stays: longer than any query.")
    ] = "15m",
    older_than: Annotated[
        str | None, typer.Option(help="Let versions of the base table go that are older, such as 7d.")
    ] = None,
    retain_versions: Annotated[
        int | None, typer.Option(help="Let versions go that are not among so many newest ones.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Kind of garbage; may be repeated. All kinds by default.")
    ] = None,
    master: Master = None,
    as_json: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--json", help="Print one JSON document for each table.")
    ] = False,
) -> None:
    """List what nobody needs any more, with reasons and bytes; remove it with --delete."""
    with failing():
        from pipeline.cleaning import clean as run  # noqa: PLC0415 - keeps --help quick
        from pipeline.lake import Lake  # noqa: PLC0415
        from pipeline.progress import on_terminal  # noqa: PLC0415

        policy = _policy(grace, older_than, retain_versions, kind)
        found = Lake.open(root, storage_options(storage_option)).tables(tables or ())
        with opened_runner(master) as runner:
            for table in found:
                report = run(table, policy, delete=delete, runner=runner, progress=on_terminal)
                if as_json:
                    typer.echo(json.dumps(_plain(report)))
                else:
                    _print(report)


def _policy(
    grace: str, older_than: str | None, retain_versions: int | None, kinds: list[str] | None
) -> CleanPolicy:
    from pipeline.cleaning import CleanPolicy, Kind  # noqa: PLC0415

    known = {one.value: one for one in Kind}
    unknown = [one for one in kinds or () if one not in known]
    if unknown:
        msg = f"--kind {unknown[0]!r} is none; the kinds are {', '.join(known)}"
        raise InvalidInputError(msg)
    return CleanPolicy(
        _seconds("--grace", grace),
        None if older_than is None else _seconds("--older-than", older_than),
        retain_versions,
        tuple(known[one] for one in kinds or known),
    )


def _seconds(option: str, text: str) -> float:
    from memwal.quantities import parse_seconds  # noqa: PLC0415

    try:
        return float(str(parse_seconds(text)))
    except ValueError as error:
        msg = f"{option} {text!r} is no duration: write it like 90s, 15m, 12h or 7d"
        raise InvalidInputError(msg) from error


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
    from rich.table import Table  # noqa: PLC0415

    console = Console(soft_wrap=True, highlight=False, markup=False)
    if report.garbage:
        shown = Table("kind", "path", "files", "bytes", "reason", box=None, pad_edge=False)
        for one in report.garbage:
            shown.add_row(one.kind.value, one.described, str(one.files), _size(one.bytes), one.reason)
        console.print(shown)
    for kept in report.kept:
        console.print(f"kept {kept.path}: {kept.reason}")
    done = "removed" if report.is_removed else "would be removed; --delete removes them"
    total = f"{len(report.garbage)} things, {_size(report.bytes)} {done}"
    console.print(f"{report.table}: {total if report.garbage else 'nothing to remove'}")


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
