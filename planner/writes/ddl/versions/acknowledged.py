"""The version of a base table that has all rows which are acknowledged now, with its flushed generations.

A version is read with what was flushed before its commit. So the logs are flushed, and a version is committed
after that if there is none yet (ADR 91).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from lance_gateway.memwal.base.version_list import read_commit_time
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.manifest import manifest_path
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.sql.text.as_of import AsOf
from lance_gateway.planner.tables.sources.snapshot import Consistency, TableSnapshot
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.statement import commit_change, flush_logs
from lance_gateway.planner.writes.ddl.versions.references import Reference, refer_to

_FLUSHED: Final = "lance-gateway.flushed"
"""Setting of a table that is written to commit a version; its value is the Unix time in seconds."""
_PAUSES: Final = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between commits, where the clock of storage is ahead of this one."""


def commit_acknowledged(catalog: Catalog, name: TableName) -> Reference:
    """Return a version whose state has all rows that were acknowledged by now; commit it if there is none.

    Raises:
        NotOwnerError: a region has rows in its log, and is left to the process that owns it.
        UnavailableError: a region was not flushed, or the clock of storage is too far ahead.
        LanceGatewayError: the table can't be read.
    """
    table = catalog.table(name)
    if table.base().details is None:
        return refer_to(table)
    flush_logs(table)
    snapshot = read_state_of(table, "flushed")
    version = snapshot.base.version
    for pause in _PAUSES:
        past = catalog.past.find(table, AsOf(version=version))
        if lists_all(snapshot, read_state_of(past)):
            _outlast_second(table, read_commit_time(past.base().dataset))
            return refer_to(past)
        time.sleep(pause)
        commit_change(table, "commit a version", _commit_version)
        version = table.base().version
    msg = (
        f"table {name!r}: the clock of its storage is more than {sum(_PAUSES):.0f} s ahead of this "
        "machine's, so that no version can have what was flushed just now: set the clocks"
    )
    raise UnavailableError(msg)


def lists_all(snapshot: TableSnapshot, shown: TableSnapshot) -> bool:
    """Return whether a state has all rows of another one, which may be older or newer."""
    merged = shown.base.merged_generations
    listed = {one: _list_numbers(shown, one) for one in shown.regions}
    return all(
        region.tail is None
        and all(
            number <= merged.get(region_id, 0) or number in listed.get(region_id, ())
            for number in _list_numbers(snapshot, region_id)
        )
        for region_id, region in snapshot.regions.items()
    )


def _list_numbers(snapshot: TableSnapshot, region_id: str) -> frozenset[int]:
    return frozenset(one.generation for one in snapshot.regions[region_id].generations)


def read_state_of(table: Table, consistency: Consistency = "strong") -> TableSnapshot:
    """Read all regions of a table, which may be one of the past.

    Raises:
        LanceGatewayError: the table can't be read.
    """
    return table.take_snapshot(table.assignments(table.base(), consistency).region_ids, consistency)


def _commit_version(dataset: Any) -> None:  # noqa: ANN401 - lance types
    dataset.update_config({_FLUSHED: f"{time.time():.6f}"})


def _outlast_second(table: Table, committed_at: int) -> None:
    """Wait for the next second if storage has times in whole seconds: later flushes are younger then."""
    manifests: Mapping[str, int] = {one.region_id: one.version for one in table.read_manifests()}
    identities = table.storage.identities(*(manifest_path(*one) for one in manifests.items()))
    if identities and all(one is None or one.written % 1_000_000_000 == 0 for one in identities):
        time.sleep(max(0.0, committed_at // 1_000_000 + 1 - time.time()))
