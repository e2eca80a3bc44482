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

from sqlglot import exp

from lance_gateway.memwal.errors import LanceGatewayError, UnsupportedError
from lance_gateway.planner.binding.changes.calls import CHANGES, FOLLOW_ALONE, read_changes_call
from lance_gateway.planner.scans.changes import POSITION
from lance_gateway.planner.sql.text.tokens import CallSite, fold, quote, tokenize
from lance_gateway.planner.sql.tree.dialect import parse_query

_FOLLOWS: Final = re.compile(r"\bfollow\s*(?:=>|:=|=)\s*true\b", re.IGNORECASE)
_CLAUSES: Final = frozenset({"expressions", "from_", "where"})
"""The clauses that a statement that follows a table can have."""
_NOWHERE: Final = (exp.Window, exp.Parameter, exp.Placeholder, exp.Subquery, exp.SetOperation)
"""Expressions that are not supported anywhere in such a statement."""


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
        begin, end = self.call
        return self.sql[:begin] + self._write_call(since, until) + self.sql[end:]

    def write_check(self) -> str:
        """Return a statement that is valid if this one selects columns and rows, and makes no aggregates."""
        (begin, end), behind = self.call, self.end_of_list
        position = f", {quote(POSITION)} AS {quote(POSITION + '#')} "
        call = self._write_call(self.since, None)
        return self.sql[:behind] + position + self.sql[behind:begin] + call + self.sql[end:]

    def _write_call(self, since: str, until: str | None) -> str:
        table = self.table.replace("'", "''")
        end = "" if until is None else f", until => '{until}'"
        if self.tells_all:
            end += ", mode => 'all'"
        return f"{CHANGES}('{table}', since => {since}{end})"


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
    except LanceGatewayError:
        return None  # The planner says what is wrong with it.
    root = parse_query(text)
    relations = [] if root is None else list(root.find_all(exp.Table))
    calls = [
        one for one in relations if isinstance(one.this, exp.Anonymous) and fold(one.this.name) == CHANGES
    ]
    if root is None or not calls:
        return None
    first = next(i for i, token in enumerate(text.tokens) if token.start == calls[0].this.meta["start"])
    site = CallSite(first, first + 1, text.closing(first + 1), CHANGES)
    call = read_changes_call(text, site)
    if len(calls) == 1 and not call.follows:
        return None
    if len(relations) != 1 or not _selects_rows(root):
        raise UnsupportedError(FOLLOW_ALONE)
    place = text.start(site.first), text.end(site.closing)
    return FollowedChanges(
        sql, call.since_text, call.table, place, call.tells_all, text.start(site.first - 1)
    )


def _selects_rows(root: exp.Query) -> bool:
    """Return whether a statement is `SELECT .. FROM call [[AS] alias] [WHERE ..]`."""
    if not isinstance(root, exp.Select) or any(root.args[key] for key in root.args.keys() - _CLAUSES):
        return False
    alias = root.args["from_"].this.args.get("alias")
    if alias is not None and alias.columns:
        return False
    return root.find(*_NOWHERE) is None and len(list(root.find_all(exp.Select))) == 1
