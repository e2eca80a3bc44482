"""Calls of `lance_position` become queries over one state of a table, and how far it is from another one.

    lance_position('t', since => 3)
->  (SELECT p._position, p._rows FROM "t#1" AS p)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.binding.bound_statement import ComparedState, StateRole
from lance_gateway.planner.binding.changes.calls import ASSIGNMENTS, CHANGES, StateResolver, read_table
from lance_gateway.planner.binding.names import StatementNames
from lance_gateway.planner.scans.changes import POSITION, ROWS
from lance_gateway.planner.sql.text.as_of import AsOf, read_state
from lance_gateway.planner.sql.text.tokens import CallSite, SqlText, fold, quote

POSITION_OF: Final = "lance_position"
STATE_FUNCTIONS: Final = frozenset({CHANGES, POSITION_OF})
"""Functions whose calls are about states of tables."""
_STATES: Final = ("since", "at")
_EXAMPLE: Final = f"{POSITION_OF}('orders', at => 12)"


@dataclass(frozen=True, slots=True)
class PositionCall:
    """The arguments of a call of `lance_position`.

    Attributes:
        table: name as written.
        at: the state; None for now.
        since: an older state, from which it is told how far it is; None for none.
    """

    table: str
    at: AsOf | None = None
    since: AsOf | None = None


def read_position_call(text: SqlText, site: CallSite) -> PositionCall:
    """Read the arguments of a call.

    Raises:
        InvalidInputError: one is missing, unknown, given twice or no constant.
    """
    table, at = read_table(text, site, POSITION_OF, _EXAMPLE), site.opening + 2
    states: dict[str, AsOf] = {}
    while at < site.closing:
        name = fold(text.names[at + 1]) if text.words[at] == "," and at + 1 in text.names else ""
        if name not in _STATES or name in states or text.words[at + 2] not in ASSIGNMENTS:
            msg = f"{POSITION_OF} takes a table, the state of it, and since, as in {_EXAMPLE}"
            raise text.error(at, msg)
        states[name], at = read_state(text, at + 3)
    return PositionCall(table, states.get("at"), states.get("since"))


def write_position(table: TableName, call: PositionCall, names: StatementNames) -> str:
    """Return the query that a call stands for, and add what it reads to the references.

    Args:
        table: name in the catalog.
        call: names the state.
        names: of the statement.

    Raises:
        LanceGatewayError: the table has no such state.
    """
    if not isinstance(names.resolver, StateResolver):
        raise UnsupportedError(f"{POSITION_OF}: table {table!r} is read as it is here, and has no states")
    other = call.at if call.since is None else call.since
    for state in (call.at, other):
        names.resolver.table(table, state)
    compared = ComparedState(StateRole.POSITION, other)
    private = names.add_reference(table, as_of=call.at, compared=compared)
    told = (POSITION,) if call.since is None else (POSITION, ROWS)
    columns = ", ".join(f"p.{quote(name)}" for name in told)
    return f"(SELECT {columns} FROM {quote(private)} AS p)"  # noqa: S608 - names are quoted
