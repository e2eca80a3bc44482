"""Views: named SELECT statements that stand where a table may stand.

    SELECT * FROM recent AS r
->  SELECT * FROM (SELECT * FROM "orders#1" AS "orders" WHERE ...) AS r
"""

from __future__ import annotations

from dataclasses import dataclass

from memwal.errors import InvalidInputError, LanceGatewayError
from planner.sql.references import QUERY_STARTS
from planner.sql.tokens import SqlText, tokenize

__all__ = ["ViewTrail"]

_MAX_VIEWS = 64


@dataclass(frozen=True, slots=True)
class ViewTrail:
    """The views that are being expanded, outermost first."""

    names: tuple[str, ...] = ()

    def enter(self, name: str) -> ViewTrail:
        """The trail inside one more view.

        Raises:
            InvalidInputError: the view is already being expanded; the message shows the cycle.
        """
        if name in self.names:
            cycle = " -> ".join([*self.names[self.names.index(name) :], name])
            raise InvalidInputError(f"The view {name!r} refers to itself: {cycle}; change one of these views")
        if len(self.names) >= _MAX_VIEWS:
            raise InvalidInputError(f"The view {name!r} stands on more than {_MAX_VIEWS} layers of views")
        return ViewTrail((*self.names, name))

    def read(self, sql: str) -> SqlText:
        """The tokens of the innermost view's text, which must be one query without parameters.

        Raises:
            InvalidInputError: the text is something else; the message names the view.
        """
        try:
            text = tokenize(sql)
        except LanceGatewayError as error:
            raise self.error(str(error)) from error
        if text.words[0] not in QUERY_STARTS and text.words[0] != "(":
            raise self.error(f"a view is one SELECT statement, and this begins with {text.tokens[0].text!r}")
        for index, word in enumerate(text.words):
            if word in {"?", "$"}:
                raise self.error(str(text.error(index, "a view has no parameters; one stands")))
        return text

    def error(self, message: str) -> InvalidInputError:
        """An error about the innermost view's text."""
        return InvalidInputError(f"View {self.names[-1]!r}: {message}")
