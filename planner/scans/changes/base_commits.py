"""Commits to the base table that may have changed rows, past the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lance_gateway.memwal.base.version_list import read_commit_time
from lance_gateway.memwal.base.versions import read_operation_name
from lance_gateway.memwal.errors import NotFoundError, UnsupportedError
from lance_gateway.planner.scans.changes.region_log import LogGoneError
from lance_gateway.planner.tables.sources.base_table import BaseTable, open_base_table

_QUIET: Final = frozenset({"CreateIndex", "Project", "Rewrite", "UpdateConfig"})
"""Operations of Lance that leave all rows as they are."""


@dataclass(frozen=True, slots=True)
class BaseCommit:
    """A version of the base table that may have changed rows.

    Attributes:
        before: the version before it.
        base: the version.
        time: of its commit, in microseconds since 1970.
    """

    before: BaseTable
    base: BaseTable
    time: int


def list_commits(older: BaseTable, newest: BaseTable) -> Iterator[BaseCommit]:
    """Yield the versions behind one, up to another, that may have changed rows, ascending.

    Raises:
        LogGoneError: a version was removed.
        UnsupportedError: one of them gave up rows that had been merged.
    """
    if older.version == newest.version:
        return
    before = older
    for version in range(older.version + 1, newest.version + 1):
        if read_operation_name(newest.dataset, version) in _QUIET:
            continue
        if before.version < version - 1:
            before = open_version(newest, version - 1)
        base = open_version(newest, version)
        merged, merged_before = base.merged_generations, before.merged_generations
        if any(merged.get(one, 0) < generation for one, generation in merged_before.items()):
            msg = (
                f"table {newest.name!r}: version {version} is a former one without generations that had "
                f"been merged; single changes are told until {version - 1}, or since {version}"
            )
            raise UnsupportedError(msg)
        if merged == merged_before:
            yield BaseCommit(before, base, read_commit_time(base.dataset))
        before = base


def open_version(newest: BaseTable, version: int) -> BaseTable:
    """Open a version up to the newest.

    Raises:
        LogGoneError: it was removed.
    """
    if version == newest.version:
        return newest
    try:
        return open_base_table(newest.name, newest.storage, version, newest.session, newest.place)
    except NotFoundError as error:
        raise LogGoneError(f"version {version} was removed") from error
