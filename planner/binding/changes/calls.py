"""Calls of `lance_changes` become queries over two states of a table.

    lance_changes('t', since => 3)
->  SELECT .., 'insert' or .. AS _change FROM (
      SELECT .. FROM "t#1" LEFT JOIN "t#2" ON the keys ..    rows that were there before, and what they became
      UNION ALL
      SELECT .. FROM "t#2" LEFT ANTI JOIN "t#1" ..           rows that were not
    ) CROSS JOIN "t#3"                                       the token of the newer state

With `mode => 'all'` the first two names stand for the rows before and behind every single change instead, and
are joined by its number (see `planner.scans.changes.every_change`).

Otherwise the private names stand for the older and the newer state without the stored rows that both have
(see `planner.scans.changes`), so the query compares no more than what may have changed. Conditions on key
columns pass through its joins, and are applied where rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.binding.bound_statement import ComparedState, StateRole
from lance_gateway.planner.binding.names import StatementNames
from lance_gateway.planner.scans.changes import (
    ADDED,
    CHANGE,
    CHANGED,
    CHANGED_AT,
    NUMBER,
    ORDERED,
    POSITION,
    SEQUENCE,
)
from lance_gateway.planner.scans.changes.key_parts import KeyPart
from lance_gateway.planner.sql.text.as_of import AsOf, read_state
from lance_gateway.planner.sql.text.tokens import STRING, CallSite, SqlText, fold, quote
from lance_gateway.planner.tables.sources.base_table import BaseTable

CHANGES: Final = "lance_changes"
_OPTIONS: Final = ("since", "until", "mode", "follow", "part", "parts")
ASSIGNMENTS: Final = frozenset({"=>", ":=", "="})
"""What stands between the name of an argument and its value."""
_EXAMPLE: Final = f"{CHANGES}('orders', since => 12)"
FOLLOW_ALONE: Final = (
    "follow => true: a statement that follows a table has no end, so it may select columns and rows of one "  # noqa: S608
    f"call and nothing else: SELECT .. FROM {CHANGES}('orders', since => 12, follow => true) WHERE .."
)
"""Says what a statement that follows a table may be."""


@dataclass(frozen=True, slots=True)
class ChangesCall:
    """The arguments of a call.

    Attributes:
        table: name as written.
        since: the older state.
        until: the newer state; None for now.
        follows: whether the changes go on without an end; see `planner.binding.changes.followed`.
        tells_all: whether every single change is told, and not what came of them.
        since_text: how the older state is written.
        part: the keys whose changes are told; None for all of them.
    """

    table: str
    since: AsOf
    until: AsOf | None
    follows: bool = False
    tells_all: bool = False
    since_text: str = ""
    part: KeyPart | None = None


class ComparedTable(Protocol):
    """A state of a table, as the principal sees it."""

    @property
    def base(self) -> BaseTable:
        """Return the version of the base table."""

    @property
    def visible_schema(self) -> pa.Schema:
        """Return the columns."""

    @property
    def visible_fields(self) -> Mapping[int, str]:
        """Return field id -> name of the columns."""

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Return the key columns."""


@runtime_checkable
class StateResolver(Protocol):
    """Finds states of tables."""

    def table(self, name: str, as_of: AsOf | None = None) -> ComparedTable:
        """Return a state of a table; None for the newest one."""


def read_changes_call(text: SqlText, site: CallSite) -> ChangesCall:
    """Read the arguments of a call.

    Raises:
        InvalidInputError: one is missing, unknown, given twice or no constant.
        UnsupportedError: `mode` is one that is not supported.
    """
    table = read_table(text, site, CHANGES, _EXAMPLE)
    states: dict[str, AsOf] = {}
    given: set[str] = set()
    numbers: dict[str, int] = {}
    follows, tells_all, since_text = False, False, ""
    at = site.opening + 2
    while at < site.closing:
        if text.words[at] != ",":
            raise text.error(at, f"{CHANGES}: arguments are separated by commas")
        name = _read_option(text, at + 1)
        if name in given:
            raise text.error(at + 1, f"{CHANGES}: {name} is given twice")
        given.add(name)
        if name == "mode":
            tells_all, at = _read_mode(text, at + 3)
        elif name == "follow":
            follows, at = _read_follow(text, at + 3)
        elif name in {"part", "parts"}:
            numbers[name], at = _read_number(text, at + 3)
        else:
            first = at + 3
            states[name], at = read_state(text, first)
            if name == "since":
                since_text = text.sql[text.start(first) : text.end(at - 1)]
    if "since" not in states:
        raise text.error(site.opening, f"{CHANGES} needs since: {_EXAMPLE}")
    if follows and "until" in states:
        raise text.error(site.opening, f"{CHANGES}: what follows a table has no until")
    if numbers and (len(numbers) < 2 or "until" not in states):
        # Without an end, each part would have another one.
        raise text.error(
            site.opening,
            f"{CHANGES}: part and parts belong together, with until beside them",
        )
    part = KeyPart(numbers["part"], numbers["parts"]) if numbers else None
    return ChangesCall(table, states["since"], states.get("until"), follows, tells_all, since_text, part)


def read_table(text: SqlText, site: CallSite, function: str, example: str) -> str:
    """Return the table that a call names.

    Raises:
        InvalidInputError: its first argument is not a string.
    """
    at = site.opening + 1
    if text.words[at] != STRING:
        raise text.error(at, f"{function}: the table is named by a string, as in {example}")
    return text.tokens[at].text


def _read_option(text: SqlText, at: int) -> str:
    if at not in text.names or text.words[at + 1] not in ASSIGNMENTS:
        raise text.error(at, f"{CHANGES}: arguments behind the table have names, as in {_EXAMPLE}")
    name = fold(text.names[at])
    if name not in _OPTIONS:
        near = get_close_matches(name, _OPTIONS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        offered = ", ".join(_OPTIONS)
        raise text.error(at, f"{CHANGES} has no option {name!r}; {hint}it has {offered}")
    return name


def _read_mode(text: SqlText, at: int) -> tuple[bool, int]:
    if text.words[at] != STRING or text.tokens[at].text not in {"net", "all"}:
        raise text.error(at, f"{CHANGES}: mode is 'net' or 'all'")
    return text.tokens[at].text == "all", at + 1


def _read_follow(text: SqlText, at: int) -> tuple[bool, int]:
    if text.words[at] not in {"TRUE", "FALSE"}:
        raise text.error(at, f"{CHANGES}: follow is true or false")
    return text.words[at] == "TRUE", at + 1


def _read_number(text: SqlText, at: int) -> tuple[int, int]:
    if text.words[at] != "0" or not text.tokens[at].text.isdecimal():
        raise text.error(at, f"{CHANGES}: part and parts are whole numbers from 1")
    return int(text.tokens[at].text), at + 1


def write_changes(table: TableName, call: ChangesCall, names: StatementNames) -> str:
    """Return the query that a call stands for, and add the states that it reads to the references.

    Args:
        table: name in the catalog.
        call: names the states.
        names: of the statement.

    Raises:
        LanceGatewayError: the table has no such state, or the states can't be compared.
        UnsupportedError: the call follows the table, and is part of a statement that can't.
    """
    if call.follows:
        raise UnsupportedError(FOLLOW_ALONE)
    older, newer = _find_states(table, call, names.resolver)
    since, until = call.since, call.until
    references = [
        (since, ComparedState(StateRole.ROWS, until, call.part)),
        (until, ComparedState(StateRole.ROWS, since, call.part)),
        (until, ComparedState(StateRole.POSITION, since)),
    ]
    if call.tells_all:
        references[:2] = [
            (until, ComparedState(StateRole.BEFORE, since, call.part)),
            (until, ComparedState(StateRole.AFTER, since, call.part)),
        ]
    private = [names.add_reference(table, as_of=as_of, compared=one) for as_of, one in references]
    return _render(table, older, newer, private, tells_all=call.tells_all)


def _find_states(
    table: TableName, call: ChangesCall, resolver: object
) -> tuple[ComparedTable, ComparedTable]:
    """Return the older and the newer state of a call.

    Raises:
        LanceGatewayError: the table has no such state.
        InvalidInputError: the state of `until` came before that of `since`.
    """
    if not isinstance(resolver, StateResolver):
        raise UnsupportedError(f"{CHANGES}: table {table!r} is read as it is here, without its past")
    older, newer = resolver.table(table, call.since), resolver.table(table, call.until)
    # Versions of a branch are no older or newer than those of the table.
    of_same = older.base.storage.uri == newer.base.storage.uri
    if of_same and older.base.version > newer.base.version:
        msg = (
            f"{CHANGES}: the state of since, on top of version {older.base.version}, came after that of "
            f"until, on top of version {newer.base.version}: exchange them"
        )
        raise InvalidInputError(msg)
    return older, newer


def _render(
    table: TableName,
    older: ComparedTable,
    newer: ComparedTable,
    names: Sequence[str],
    *,
    tells_all: bool = False,
) -> str:
    """Return the query that gives the changes between two states.

    Args:
        table: for messages.
        older: state before.
        newer: state after, whose columns the result has.
        names: what stands in the text for the older state, the newer state, and the token of the newer one.
        tells_all: whether the first two names stand for the rows before and behind every single change.

    Raises:
        InvalidInputError: a column has a name that the result needs.
        UnsupportedError: the states can't be compared.
    """
    columns = newer.visible_schema.names
    taken = [name for name in columns if name in (ORDERED if tells_all else ADDED)]
    if taken:
        msg = f"{CHANGES}: table {table!r} has a column {taken[0]!r}, as the changes have: rename the column"
        raise InvalidInputError(msg)
    before, key = _map_columns(older, newer), newer.primary_key
    _check_keys(table, older, key, before)
    if tells_all:
        before = {name: name for name in columns}
    old = {name: _read_old(before[name]) for name in columns}
    new = {name: f"n.{quote(name)}" for name in columns}
    on = " AND ".join(f"{old[name]} = {new[name]}" for name in key)
    if tells_all:
        on = f"o.{quote(NUMBER)} = n.{quote(NUMBER)}"
    older_name, newer_name, position_name = map(quote, names)
    compared = [name for name in columns if name not in key] or list(key)
    differs = f"{_struct(old, compared)} IS DISTINCT FROM {_struct(new, compared)}"
    gone = f"{new[key[0]]} IS NULL"
    change = quote(CHANGE)
    added, paired, inserted = f"CAST(NULL AS TIMESTAMP) AS {quote(CHANGED_AT)}", "", ""
    if tells_all:
        added = f"c.{quote(CHANGED_AT)}, c.{quote(SEQUENCE)}"
        paired, inserted = (_tell_order(alias) for alias in "on")
    return (
        f"(SELECT {_list('c', columns)}, c.{change}, p.{quote(POSITION)}, "  # noqa: S608 - names are quoted
        f"{added} FROM {position_name} AS p CROSS JOIN ("
        f"SELECT {', '.join(_choose(name, old, new, key) for name in columns)}, "
        f"CASE WHEN {gone} THEN 'delete' WHEN s.b THEN 'update_before' ELSE 'update_after' END AS {change}"
        f"{paired} FROM (VALUES (true), (false)) AS s(b) CROSS JOIN {older_name} AS o "
        f"LEFT JOIN {newer_name} AS n ON {on} WHERE ({gone} AND s.b) OR (NOT {gone} AND {differs}) "
        f"UNION ALL SELECT {_list('n', columns)}, 'insert' AS {change}{inserted} "
        f"FROM {newer_name} AS n LEFT ANTI JOIN {older_name} AS o ON {on}) AS c)"
    )


def _tell_order(alias: str) -> str:
    """Return when a change was made, and its place: of a pair, the row before comes first."""
    number = f"2 * {alias}.{quote(NUMBER)}"
    place = number if alias == "n" else f"{number} - CASE WHEN s.b THEN 1 ELSE 0 END"
    time = f"CAST({alias}.{quote(CHANGED)} AS TIMESTAMP)"
    return f", {time} AS {quote(CHANGED_AT)}, {place} AS {quote(SEQUENCE)}"


def _check_keys(
    table: TableName, older: ComparedTable, key: tuple[str, ...], before: dict[str, str | None]
) -> None:
    if not key:
        msg = f"{CHANGES}: rows are compared by their primary key, and table {table!r} shows none"
        raise UnsupportedError(msg)
    if tuple(before[name] for name in key) != older.primary_key:
        msg = f"{CHANGES}: table {table!r} had another primary key in the older state: choose a later one"
        raise UnsupportedError(msg)


def _map_columns(older: ComparedTable, newer: ComparedTable) -> dict[str, str | None]:
    """Return the name that each column of the newer state had in the older one; None if it was not there."""
    names, before = older.visible_fields, older.visible_schema
    found = {name: names.get(number) for number, name in newer.visible_fields.items()}
    # A changed type has a new id, and Lance gives the id of a dropped column without values to the next one.
    return {
        name: old
        if old is not None and before.field(old).type.equals(newer.visible_schema.field(name).type)
        else None
        for name, old in found.items()
    }


def _read_old(name: str | None) -> str:
    return "NULL" if name is None else f"o.{quote(name)}"


def _choose(name: str, old: dict[str, str], new: dict[str, str], key: tuple[str, ...]) -> str:
    """Return the value of a column in a row of a pair.

    The key of the older row is also that of the newer one: so conditions on it reach both states.
    """
    value = old[name] if name in key else f"CASE WHEN s.b THEN {old[name]} ELSE {new[name]} END"
    return f"{value} AS {quote(name)}"


def _struct(values: dict[str, str], names: Sequence[str]) -> str:
    return f"struct({', '.join(values[name] for name in names)})"


def _list(alias: str, names: Sequence[str]) -> str:
    return ", ".join(f"{alias}.{quote(name)} AS {quote(name)}" for name in names)
