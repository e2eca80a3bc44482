"""``VERSION AS OF ..`` behind the name of a tag or a branch: the version that it is made from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

from lance_gateway.memwal.errors import UnavailableError, shorten_error
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.sql.text.as_of import AS_OF_STARTS, AsOf, read_as_of
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.branches import MAIN, BranchTable
from lance_gateway.planner.tables.state.past.noted_tables import find_state
from lance_gateway.planner.tables.state.past.past_table import PastTable
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.statement import Reader
from lance_gateway.planner.writes.dml.statement.target import check_may_write, check_writable


class Reference(NamedTuple):
    """A version as Lance names it.

    Attributes:
        branch: that it is a version of.
        version: number.
    """

    branch: str
    version: int


@dataclass(frozen=True, slots=True)
class State:
    """The state that a statement names.

    Attributes:
        as_of: version, tag, branch or moment; None for the newest version.
    """

    as_of: AsOf | None

    def open(self, catalog: Catalog, name: TableName) -> Table:
        """Open the table in that state.

        Raises:
            LanceGatewayError: there is no such state.
        """
        table = catalog.table(name)
        return table if self.as_of is None else find_state(catalog.past, table, self.as_of)


@contextmanager
def changing_references(kind: str, name: str, base: BaseTable) -> Iterator[Any]:
    """Give a dataset by which to change tags or branches, and say what Lance refuses.

    It is not the one by which others read: Lance lets nobody use an object that it changes.

    Args:
        kind: what is changed, "tag" or "branch".
        name: of the tag or branch.
        base: of the table.

    Raises:
        UnavailableError: a version has gone meanwhile, or another client was first.
    """
    try:
        yield copy(base.dataset)
    except (OSError, ValueError) as error:
        msg = f"{kind} {name!r} of table {base.name!r} can't be changed: {shorten_error(error)}; try again"
        raise UnavailableError(msg) from error


def read_table(engine: QueryPlanner, reader: Reader, access: Access) -> TableName:
    """Take ``ON t``, which must be a table that the user may change.

    Raises:
        LanceGatewayError: it is not, or something else stands there.
    """
    reader.expect("ON")
    name = reader.table()
    check_may_write(engine, name, access)
    check_writable(engine, name)
    return name


def refer_to(table: Table) -> Reference:
    """Return the version of the base table, or of a branch, that is open."""
    on = table.today if isinstance(table, PastTable) else table
    return Reference(on.branch if isinstance(on, BranchTable) else MAIN, table.base().version)


def read_state(reader: Reader) -> State:
    """Take ``[FROM] [FOR] VERSION | TIMESTAMP AS OF ..``; without it, the newest version is meant."""
    is_named = reader.take("FROM")
    if reader.word not in AS_OF_STARTS and not is_named:
        return State(None)
    found = read_as_of(reader.text, reader.at)
    if found is None:
        raise reader.error(
            "Expected VERSION AS OF a number, a tag or a branch, TIMESTAMP AS OF a moment, or the end"
        )
    as_of, reader.at = found
    return State(as_of)
