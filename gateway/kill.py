"""`KILL QUERY 'id'`: stops a statement, by the id that `system.queries` shows.

It is answered like a query with one row, so that every client can send it, but it does not queue behind the
statements that it may be meant for. Planning or preparing it does nothing; executing it does, once.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import pyarrow as pa

from gateway.commands import Call
from gateway.queries import Queries, QueryCancelledError
from memwal.errors import InvalidInputError, NotFoundError, PreconditionError
from planner.engine import PreparedQuery, PreparedWrite, QueryEngine, SessionSettings

logger = logging.getLogger(__name__)

# Atomic and possessive: many comments in a row have one reading, and trying others takes forever.
_COMMENTS = r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*+"
_STARTS = re.compile(rf"{_COMMENTS}KILL\b", re.IGNORECASE | re.DOTALL)
_KILL = re.compile(
    rf"{_COMMENTS}KILL\s+QUERY\s+'(?P<id>[^']*)'{_COMMENTS};?{_COMMENTS}", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class Kill:
    """The statement, understood.

    Args:
        sql: as given.
        query_id: that it names.
    """

    sql: str
    query_id: str

    schema = pa.schema([pa.field("query_id", pa.string()), pa.field("killed", pa.bool_())])
    parameter_schema = pa.schema([])

    @cached_property
    def serialized_parameter_schema(self) -> bytes:
        """No parameters, as an encapsulated IPC message."""
        return bytes(self.parameter_schema.serialize())

    @cached_property
    def digest(self) -> bytes:
        """8 bytes that tell the result's schema."""
        return blake2b(bytes(self.schema.serialize()), digest_size=8).digest()

    def run(self, queries: Queries, call: Call) -> pa.RecordBatch:
        """Stops the statement: one row, once it was told to stop.

        Raises:
            NotFoundError: there is no such statement under way that the caller may stop.
        """
        user = None if call.access.is_admin else call.identity.name
        error = QueryCancelledError(f"the statement was killed by user {call.identity.name!r}")
        if not queries.cancel(self.query_id, error, user):
            whose = "" if user is None else f" of user {user!r}"
            raise NotFoundError(
                f"no query {self.query_id!r}{whose} waits or runs on this gateway: "
                "system.queries shows those that do"
            )
        logger.info("user %r killed query %s", call.identity.name, self.query_id)
        return pa.RecordBatch.from_pylist([{"query_id": self.query_id, "killed": True}], self.schema)


def parse_kill(sql: str) -> Kill | None:
    """Returns the statement if it is a KILL.

    >>> parse_kill("kill query '0af1' ;").query_id
    '0af1'
    >>> parse_kill("SELECT 1") is None
    True

    Raises:
        InvalidInputError: it begins like one and does not go on like one.
    """
    if _STARTS.match(sql) is None:
        return None
    found = _KILL.fullmatch(sql)
    if found is None:
        raise InvalidInputError("KILL is written KILL QUERY '<query_id>', with an id of system.queries")
    return Kill(sql, found["id"])


def prepare(
    engine: QueryEngine, sql: str, settings: SessionSettings, call: Call, promised: bytes | None = None
) -> PreparedQuery | PreparedWrite | Kill:
    """Returns the plan of a statement: a `Kill`, or the engine's.

    Raises:
        LanceGatewayError: see `QueryEngine.prepare_statement`.
    """
    kill = parse_kill(sql)
    if kill is None:
        return engine.prepare_statement(sql, settings, call.access, promised=promised)
    if promised is not None and promised != kill.digest:
        raise PreconditionError(f"{sql!r} has another result than was promised: prepare it again")
    return kill
