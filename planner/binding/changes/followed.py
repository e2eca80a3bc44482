"""Statements that follow a table: `SELECT .. FROM lance_changes('t', since => 3, follow => true) WHERE ..`.

Such a statement is a sequence of finite ones, each from the state where the one before it ended:

    SELECT .. FROM lance_changes('t', since => 3, until => 'lance-changes:1:Cg') WHERE ..
    SELECT .. FROM lance_changes('t', since => 'lance-changes:1:Cg', until => 'lance-changes:1:Ch') WHERE ..

So it is about rows one by one: what needs all rows, as aggregates and sorts do, would need the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lance_gateway.memwal.errors import LanceGatewayError, UnsupportedError
from lance_gateway.planner.binding.changes.calls import CHANGES, FOLLOW_ALONE, read_changes_call
from lance_gateway.planner.scans.changes import POSITION
from lance_gateway.planner.sql.text.edits import Edit, apply_edits
from lance_gateway.planner.sql.text.references import FunctionSite, find_references
from lance_gateway.planner.sql.text.tokens import SqlText, quote, tokenize

_FOLLOWS: Final = re.compile(r"\bfollow\s*(?:=>|:=|=)\s*true\b", re.IGNORECASE)
_NEEDS_ALL: Final = frozenset(
    {
        "CLUSTER",
        "CROSS",
        "DISTINCT",
        "DISTRIBUTE",
        "EXCEPT",
        "FETCH",
        "FULL",
        "GROUP",
        "HAVING",
        "INNER",
        "INTERSECT",
        "INTO",
        "JOIN",
        "LEFT",
        "LIMIT",
        "NATURAL",
        "OFFSET",
        "ORDER",
        "QUALIFY",
        "RIGHT",
        "SORT",
        "UNION",
        "WINDOW",
    }
)
"""Clauses that a statement which follows a table can't have."""
_NOWHERE: Final = frozenset({"OVER", "$", "?"})
"""What may stand nowhere in it: windows, and parameters."""


@dataclass(frozen=True, slots=True)
class FollowedChanges:
    """A statement that follows a table.

    Attributes:
        sql: its text.
        since: the state from which it begins, as written.
        table: name of the table, as written.
        call: where its call begins and ends in the text.
        tells_all: whether it tells every single change.
        end_of_list: where FROM begins.
    """

    sql: str
    since: str
    table: str
    call: tuple[int, int]
    tells_all: bool
    end_of_list: int

    def write_step(self, since: str, until: str | None) -> str:
        """Return the statement that gives the changes between two states.

        Args:
            since: the older one, as SQL.
            until: token of the newer one; None for now.
        """
        return apply_edits(self.sql, [self._edit_call(since, until)])

    def write_check(self) -> str:
        """Return a statement that is valid if this one selects columns and rows, and makes no aggregates."""
        position = Edit.insert(self.end_of_list, f", {quote(POSITION)} AS {quote(POSITION + '#')} ")
        return apply_edits(self.sql, [position, self._edit_call(self.since, None)])

    def _edit_call(self, since: str, until: str | None) -> Edit:
        table = self.table.replace("'", "''")
        end = "" if until is None else f", until => '{until}'"
        if self.tells_all:
            end += ", mode => 'all'"
        return Edit.replace(*self.call, f"{CHANGES}('{table}', since => {since}{end})")


def read_followed_changes(sql: str) -> FollowedChanges | None:
    """Read a statement that follows a table; return None for others.

    Raises:
        UnsupportedError: it has clauses that need an end.
        InvalidInputError: an argument of its call is missing or not valid.
    """
    if _FOLLOWS.search(sql) is None:
        return None
    try:
        text = tokenize(sql)
        functions = find_references(text).functions
    except LanceGatewayError:
        return None  # The planner says what is wrong with it.
    sites = [site for site in functions if site.name == CHANGES]
    if not sites:
        return None
    call = read_changes_call(text, sites[0])
    if len(sites) == 1 and not call.follows:
        return None
    if len(functions) != 1 or not _selects_rows_of(text, sites[0]):
        raise UnsupportedError(FOLLOW_ALONE)
    site = sites[0]
    place = text.start(site.first), text.end(site.closing)
    return FollowedChanges(
        sql, call.since_text, call.table, place, call.tells_all, text.start(site.first - 1)
    )


def _selects_rows_of(text: SqlText, site: FunctionSite) -> bool:
    """Return whether a statement is `SELECT .. FROM call [[AS] alias] [WHERE ..]`."""
    words = text.words
    if words[0] != "SELECT" or words.count("SELECT") != 1 or not _NOWHERE.isdisjoint(words):
        return False
    outside = list(text.level(0))
    if words[site.first - 1] != "FROM" or site.first - 1 not in outside:
        return False
    if any(words[i] in _NEEDS_ALL for i in outside):
        return False
    behind = site.closing + 1
    if words[behind] == "AS":
        behind += 1
    if words[behind] not in {"", "WHERE"} and text.is_name(behind):
        behind += 1
    return words[behind] in {"", "WHERE"}
