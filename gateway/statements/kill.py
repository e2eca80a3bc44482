"""`KILL QUERY 'id'`, with an id of `system.queries`.

It returns one row like a query, so that every client can send it, but it does not wait in the queue of
statements. It takes effect when it is executed, not when it is prepared.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import pyarrow as pa

from lance_gateway.gateway.execution.own_statement import OwnStatement
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.errors import QueryCancelledError
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError

logger = logging.getLogger(__name__)

Cancel: TypeAlias = Callable[[str, LanceGatewayError, str | None], bool]
"""Stops the statement of an id, of one user or of all; returns whether there was one."""

# Atomic and possessive: many comments in a row have one reading, and trying others takes forever.
_COMMENTS = r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*+"
_KILL = re.compile(
    rf"{_COMMENTS}KILL\s+QUERY\s+'(?P<id>[^']*)'{_COMMENTS};?{_COMMENTS}", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class Kill(OwnStatement):
    """A parsed KILL statement.

    Attributes:
        sql: its text.
        query_id: what it stops.
        cancel: see `Queries.cancel`.
    """

    sql: str
    query_id: str
    cancel: Cancel

    schema = pa.schema([pa.field("query_id", pa.string()), pa.field("killed", pa.bool_())])
    changes: ClassVar[bool] = True

    def run(self, call: Call) -> pa.RecordBatch:
        """Cancel the statement; return one row.

        Raises:
            NotFoundError: there is no such statement under way that the caller may stop.
        """
        user = None if call.access.is_admin else call.identity.name
        error = QueryCancelledError(f"the statement was killed by user {call.identity.name!r}")
        if not self.cancel(self.query_id, error, user):
            whose = "" if user is None else f" of user {user!r}"
            raise NotFoundError(
                f"no query {self.query_id!r}{whose} waits or runs on this gateway: "
                "system.queries shows those that do"
            )
        logger.info("user %r killed query %s", call.identity.name, self.query_id)
        return pa.RecordBatch.from_pylist([{"query_id": self.query_id, "killed": True}], self.schema)


def parse_kill(sql: str, cancel: Cancel) -> Kill:
    """Return a statement whose first word is KILL.

    >>> parse_kill("kill query '0af1' ;", cancel=lambda *_: True).query_id
    '0af1'

    Raises:
        InvalidInputError: it does not go on like one.
    """
    match = _KILL.fullmatch(sql)
    if match is None:
        raise InvalidInputError("KILL is written KILL QUERY '<query_id>', with an id of system.queries")
    return Kill(sql, match["id"], cancel)
