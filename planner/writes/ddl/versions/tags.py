"""``CREATE [OR REPLACE] TAG [IF NOT EXISTS] x ON t [VERSION AS OF ..]`` and ``DROP TAG [IF EXISTS] x ON t``.

A tag is a name for a version of the base table, or of a branch, which is kept as long as the tag is there.
The newest version has all rows that are acknowledged: one is read with what was flushed before its commit. So
the logs are flushed, and a version is committed after that if there is none yet (ADR 91).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Final

from lance_gateway.memwal.base.index_details import read_base_manifest
from lance_gateway.memwal.base.version_list import read_commit_time
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.memwal.regions.manifest import manifest_path
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.sql.text.as_of import AsOf
from lance_gateway.planner.tables.sources.snapshot import Consistency, TableSnapshot
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.branches import BranchTable, read_branches
from lance_gateway.planner.tables.state.past.tags import read_tags
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.statement import (
    DONE,
    PreparedDefinition,
    Reader,
    commit_change,
    flush_logs,
)
from lance_gateway.planner.writes.ddl.versions.references import (
    Reference,
    State,
    changing_references,
    read_state,
    read_table,
    refer_to,
)
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from lance_gateway.planner.writes.dml.statement.target import check_may_write

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


_NAME: Final = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")


def prepare_create_tag(
    engine: QueryPlanner, reader: Reader, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Prepare CREATE TAG, read up to TAG.

    Raises:
        LanceGatewayError: the statement is invalid, or there is no such version.
    """
    skips = reader.take("IF", "NOT", "EXISTS")
    if skips and replaces:
        raise reader.error("OR REPLACE and IF NOT EXISTS exclude each other")
    tag = _read_name(reader)
    table_name = read_table(engine, reader, access)
    state = read_state(reader)
    reader.expect_end()

    state.open(engine.catalog, table_name)

    def create(_control: RunControl | None) -> WriteResult:
        check_may_write(engine, table_name, access)
        base = engine.catalog.table(table_name).base()
        read_base_manifest(base.storage, base.version).check_writable(table_name)
        is_known = tag in read_tags(base)
        if is_known and not replaces:
            if skips:
                return DONE
            msg = f"table {table_name!r} has a tag {tag!r} already: use OR REPLACE to move it"
            raise AlreadyExistsError(msg)
        if tag in read_branches(base):
            msg = f"table {table_name!r} has a branch {tag!r}: give the tag another name"
            raise AlreadyExistsError(msg)
        reference = _find_version(engine.catalog, table_name, state, tag)
        with changing_references("tag", tag, base) as dataset:
            change = dataset.tags.update if is_known else dataset.tags.create
            change(tag, (reference.branch, reference.version))
        return DONE

    return PreparedDefinition(reader.text.sql, create, table_name)


def _find_version(catalog: Catalog, name: TableName, state: State, tag: str) -> Reference:
    """Return the version of a state: that of the newest one has all that was acknowledged.

    Raises:
        PreconditionError: the version of a moment, or of a token, lacks rows that were fresh then.
        LanceGatewayError: there is no such state.
    """
    if state.as_of is None:
        return commit_acknowledged(catalog, name)
    table = state.open(catalog, name)
    reference = refer_to(table)
    if isinstance(table, BranchTable) or state.as_of.version is not None or state.as_of.tag is not None:
        return reference
    version = catalog.past.find(catalog.table(name), AsOf(version=reference.version))
    then, kept = (
        one.take_snapshot(one.assignments(one.base(), "strong").region_ids) for one in (table, version)
    )
    if not lists_all(then, kept):
        msg = (
            f"tag {tag!r} of table {name!r} can't be created {table.described_time}: a tag names a version, "
            f"and version {reference.version} has not all rows that the table had then. Name a version, or "
            "leave AS OF out to tag what the table has now; CREATE TABLE .. CLONE .. AS OF .. copies "
            "the state"
        )
        raise PreconditionError(msg)
    return reference


def prepare_drop_tag(
    engine: QueryPlanner, reader: Reader, access: Access, *, if_exists: bool
) -> PreparedDefinition:
    """Prepare DROP TAG, read up to TAG [IF EXISTS].

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    tag = reader.name("The name of a tag")
    table_name = read_table(engine, reader, access)
    reader.expect_end()

    def drop(_control: RunControl | None) -> WriteResult:
        check_may_write(engine, table_name, access)
        base = engine.catalog.table(table_name).base()
        tags = read_tags(base)
        if tag in tags:
            with changing_references("tag", tag, base) as dataset:
                dataset.tags.delete(tag)
        elif not if_exists:
            listed = ", ".join(map(repr, sorted(tags))) or "none"
            msg = f"table {table_name!r} has no tag {tag!r}; it has {listed}"
            raise NotFoundError(msg)
        return DONE

    return PreparedDefinition(reader.text.sql, drop, table_name)


def _read_name(reader: Reader) -> str:
    tag = reader.name("The name of a tag")
    if not _NAME.fullmatch(tag) or tag.endswith(".lock") or ".." in tag:
        # Lance makes some of these, and no reader can list the tags of the table any more.
        msg = (
            f"a tag can't be named {tag!r}: names have letters A to Z, digits, '_', '-' and single dots "
            "within, and don't end in .lock"
        )
        raise InvalidInputError(msg)
    return tag
