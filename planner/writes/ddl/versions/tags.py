"""``CREATE [OR REPLACE] TAG [IF NOT EXISTS] x ON t [VERSION AS OF ..]`` and ``DROP TAG [IF EXISTS] x ON t``.

A tag is a name for a version of the base table, or of a branch, which is kept as long as the tag is there.
"""

from __future__ import annotations

import re
from typing import Final

from lance_gateway.memwal.base.index_details import read_base_manifest
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
)
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.sql.text.as_of import AsOf
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.branches import BranchTable, read_branches
from lance_gateway.planner.tables.state.past.tags import read_tags
from lance_gateway.planner.writes.ddl.statement import DONE, PreparedDefinition, Reader
from lance_gateway.planner.writes.ddl.versions.acknowledged import commit_acknowledged, lists_all
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
