"""``CREATE BRANCH [IF NOT EXISTS] b ON t [FROM VERSION AS OF ..]``, ``DROP BRANCH b ON t`` (ADR 61).

A branch has versions of its own, which begin with one of the table. Lance writes to it; the gateway reads it.
"""

from __future__ import annotations

import re
from typing import Final

from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
)
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.tables.state.past.branches import MAIN, read_branches
from lance_gateway.planner.tables.state.past.tags import read_tags
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.statement import DONE, PreparedDefinition, Reader
from lance_gateway.planner.writes.ddl.versions.references import (
    changing_references,
    read_state,
    read_table,
    refer_to,
)
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from lance_gateway.planner.writes.dml.statement.target import check_may_write

_NAME: Final = re.compile(
    r"[A-Za-z0-9_-](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?(?:/[A-Za-z0-9_-](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?)*"
)


def prepare_create_branch(
    engine: QueryPlanner, reader: Reader, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Prepare CREATE BRANCH, read up to BRANCH.

    Raises:
        LanceGatewayError: the statement is invalid, or there is no such version.
    """
    if replaces:
        raise reader.error("A branch is not replaced: DROP BRANCH it first")
    skips = reader.take("IF", "NOT", "EXISTS")
    branch = _read_name(reader)
    name = read_table(engine, reader, access)
    state = read_state(reader)
    reader.expect_end()
    state.open(engine.catalog, name)

    def create(_control: RunControl | None) -> WriteResult:
        check_may_write(engine, name, access)
        base = engine.catalog.table(name).base()
        if branch in read_branches(base):
            if skips:
                return DONE
            msg = f"table {name!r} has a branch {branch!r} already: choose another name"
            raise AlreadyExistsError(msg)
        if branch in read_tags(base):
            msg = f"table {name!r} has a tag {branch!r}: give the branch another name"
            raise AlreadyExistsError(msg)
        table = state.open(engine.catalog, name)
        _check_is_merged(table, branch)
        with changing_references("branch", branch, base) as dataset:
            dataset.create_branch(branch, tuple(refer_to(table)))
        return DONE

    return PreparedDefinition(reader.text.sql, create, name)


def prepare_drop_branch(
    engine: QueryPlanner, reader: Reader, access: Access, *, if_exists: bool
) -> PreparedDefinition:
    """Prepare DROP BRANCH, read up to BRANCH [IF EXISTS].

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    branch = reader.name("The name of a branch")
    name = read_table(engine, reader, access)
    reader.expect_end()

    def drop(_control: RunControl | None) -> WriteResult:
        check_may_write(engine, name, access)
        base = engine.catalog.table(name).base()
        branches = read_branches(base)
        if branch not in branches:
            if if_exists:
                return DONE
            listed = ", ".join(map(repr, sorted(branches))) or "none"
            msg = f"table {name!r} has no branch {branch!r}; it has {listed}"
            raise NotFoundError(msg)
        tags = [tag for tag, at in sorted(read_tags(base).items()) if at.branch == branch]
        children = [other for other, one in sorted(branches.items()) if one.parent == branch]
        for kind, needing in (("TAG", tags), ("BRANCH", children)):
            if needing:
                msg = (
                    f"branch {branch!r} of table {name!r} is needed by {kind.lower()} {needing[0]!r}: "
                    f"DROP {kind} it first"
                )
                raise PreconditionError(msg)
        with changing_references("branch", branch, base) as dataset:
            dataset.branches.delete(branch)
        return DONE

    return PreparedDefinition(reader.text.sql, drop, name)


def _check_is_merged(table: Table, branch: str) -> None:
    """Refuse a state with rows that are not in the base table, which a branch would not have.

    Raises:
        PreconditionError: there are such rows.
    """
    base = table.base()
    if base.details is None:
        return
    regions = table.assignments(base, "strong").region_ids
    snapshot = table.take_snapshot(regions)
    fresh = [one for one, region in snapshot.regions.items() if region.generations or region.tail is not None]
    if fresh:
        msg = (
            f"branch {branch!r} of table {base.name!r} can't be created from version "
            f"{snapshot.base.version}: {len(fresh)} of its regions have rows that are not merged into "
            "it, which a branch would not have. Merge them first (lance-gateway "
            "pipeline merge), or name a version that has its rows"
        )
        raise PreconditionError(msg)


def _read_name(reader: Reader) -> str:
    branch = reader.name("The name of a branch")
    if not _NAME.fullmatch(branch) or ".." in branch or branch.endswith(".lock") or branch == MAIN:
        msg = (
            f"a branch can't be named {branch!r}: names have letters A to Z, digits, '_', '-', and '/' and "
            f"single dots within; they don't end in .lock, and {MAIN!r} is the table itself"
        )
        raise InvalidInputError(msg)
    return branch
