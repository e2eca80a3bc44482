"""Indexes of the primary key: built with a table's first rows, and given up or wanted by statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lance_gateway.memwal.creating.key_index import (
    FINDING_TYPES,
    build_key_index,
    check_key_index,
    encode_key_index,
    list_default_columns,
    list_unindexed_columns,
    list_wanted_columns,
)
from lance_gateway.memwal.storage.jobs import Job
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.statement import commit_change


def build_key_indexes(table: Table, job: Job | None = None) -> tuple[str, ...]:
    """Build the indexes that the key of a table lacks, if its base table has rows; return their names.

    Args:
        table: the table.
        job: is told how many are done; None for nobody.

    Raises:
        PreconditionError: Lance refuses an index.
        UnavailableError: another commit came first in every attempt.
    """
    built: list[str] = []

    def build(dataset: Any) -> None:  # noqa: ANN401 - lance types
        missing = list_unindexed_columns(dataset)
        if missing and dataset.count_rows():
            built.append(build_key_index(dataset, missing[0]))

    columns = list_unindexed_columns(table.base().dataset)
    if job is not None:
        job.begin("build indexes of the key", len(columns), "index")
    for _ in columns:
        commit_change(table, "build an index on the key", build)
        if job is not None:
            job.advance(1)
    return tuple(built)


@dataclass(frozen=True)
class SetKeyIndex:
    """SET (key_index = ..).

    Attributes:
        columns: key columns that should have an index; None for the default.
    """

    columns: tuple[str, ...] | None

    def check(self, table: Table) -> bool:
        """Refuse columns that are not of the key."""
        base = table.base()
        check_key_index(self.columns or (), base.primary_key)
        wanted = list_default_columns(base.dataset.schema) if self.columns is None else self.columns
        return set(wanted) != set(list_wanted_columns(base.dataset))

    def apply(self, table: Table) -> None:
        """Record the columns; indexes are built by upkeep, and dropped by DROP INDEX."""
        entries = dict(encode_key_index(self.columns))
        commit_change(table, "record key_index", lambda dataset: dataset.update_config(entries))


def give_up_key_index(table: Table, name: str) -> None:
    """Record that the column of an index should have none, if it is of the key and this is its index."""
    base = table.base()
    dropped = [index.columns for index in base.indexes if index.name == name and index.type in FINDING_TYPES]
    wanted = list_wanted_columns(base.dataset)
    remaining = tuple([column for column in wanted if (column,) not in dropped])
    if len(remaining) < len(wanted):
        SetKeyIndex(remaining).apply(table)
