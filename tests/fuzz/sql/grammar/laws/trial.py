"""What all laws have: one statement, and those whose answers make its answer."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from tests.fuzz.sql.grammar.tree import Node, Text
from tests.fuzz.sql.judges.answers import Rows


class Law(Enum):
    """What must hold."""

    ROWS = "the three parts are all rows"
    DISTINCT = "the distinct rows of the three parts are all distinct rows"
    COUNTS = "counts, sums and extremes of the three parts make those of all rows"
    HAVING = "the groups of three HAVING are all groups"
    COMPUTED = "WHERE passes the rows for which the condition is true"
    ON = "the three parts of a join are all of its rows"
    CROSSED = "a join has the rows of all pairs that meet its condition"
    OUTER = "an outer join has the rows of the inner one, and those that find none"
    MATCHED = "a semi join has the rows for which a row EXISTS"
    CHANGED = "a statement that writes leaves the rows that a query computes"
    SEEN = "after a statement that writes, queries find the rows that it has to leave"
    RETURNED = "a statement that writes returns the rows that a query finds"
    AFFECTED = "a statement that writes tells how many rows a query counts"


class Trial(Node):
    """A statement, and others that must make its answer."""

    law: Law

    def whole(self) -> Node:
        """What is compared with the parts."""
        raise NotImplementedError

    def parts(self) -> tuple[Node, ...]:
        """What is put together and compared with it."""
        raise NotImplementedError

    def holds(self, whole: Rows, parts: tuple[Rows, ...]) -> bool:
        """Whether the law holds of these answers."""
        return Counter(whole) == Counter(row for part in parts for row in part)

    def write(self, text: Text) -> None:
        text.put_list((self.whole(), *self.parts()), "; ")
