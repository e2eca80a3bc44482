"""The temporary tables of sessions: made for a session with its first one, and gone with it."""

from __future__ import annotations

import dataclasses
import logging
import threading
from dataclasses import dataclass

from google.protobuf.message import Message

from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.origins import find_origin
from lance_gateway.gateway.sessions import Sessions
from lance_gateway.memwal.errors import LanceGatewayError, NotFoundError, PreconditionError
from lance_gateway.planner.access.rights import Access, SessionAccess
from lance_gateway.planner.tables.state.catalog import Catalog

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 60.0


def check_session(message: Message, call: Call) -> None:
    """Check that what was planned with temporary tables is executed in the same session.

    Elsewhere the same names would mean other tables.

    Raises:
        NotFoundError: it is not, or the session has none any more.
    """
    origin = find_origin(message)
    if origin is not None and origin.temporary and origin.temporary != call.temporary:
        msg = (
            "the statement was prepared in a session with temporary tables, which has ended or dropped them, "
            "or whose cookie the call does not send: prepare it again"
        )
        raise NotFoundError(msg)


@dataclass
class _Schema:
    """The temporary tables of one session.

    Attributes:
        name: of their schema.
        access: of the last call.
    """

    name: str
    access: SessionAccess | None = None


class SessionTables:
    """The temporary tables of all sessions of a server; safe to share between threads.

    Args:
        catalog: that has the tables.
        sessions: of the server.
    """

    def __init__(self, catalog: Catalog, sessions: Sessions) -> None:
        self._catalog = catalog
        self._sessions = sessions
        self._lock = threading.Lock()
        self._schemas: dict[str, _Schema] = {}
        self._closed = threading.Event()

    def extend(self, access: Access, session_id: str | None) -> Access:
        """Return the rights of a call: of its principal, and on the temporary tables of its session."""
        schema = None if session_id is None else self._schemas.get(session_id)
        return access if schema is None else self._find_access(schema, access)

    def open(self, call: Call) -> Call | None:
        """Return the call with the right to make temporary tables.

        Returns:
            None where it names no session: the answer sets a cookie for the next call.

        Raises:
            PreconditionError: the gateway only reads.
            LanceGatewayError: the session ended meanwhile, or its tables can be kept nowhere.
        """
        if self._catalog.writing is None:
            msg = "there are no temporary tables, since this gateway was started read-only"
            raise PreconditionError(msg)
        call = self._sessions.open(call)
        if call.session_id is None:
            return None
        with self._lock:
            schema = self._schemas.get(call.session_id)
            if schema is None:
                if not self._schemas:
                    threading.Thread(target=self._watch, name="temporary-tables", daemon=True).start()
                schema = self._schemas[call.session_id] = _Schema(self._catalog.temporary.open_schema())
        try:
            # A session that has ended before this moment has told nobody of it.
            self._sessions.find_settings(call.session_id, call.identity.name)
        except LanceGatewayError:
            self.end_session(call.session_id)
            raise
        return dataclasses.replace(call, access=self._find_access(schema, call.access))

    def end_session(self, session_id: str) -> None:
        """Remove the tables of a session that has ended."""
        with self._lock:
            schema = self._schemas.pop(session_id, None)
        if schema is not None:
            try:
                self._catalog.drop_temporary(schema.name)
            except LanceGatewayError as error:
                logger.warning("temporary tables are left until the gateway stops: %s", error)

    def close(self) -> None:
        """Stop looking for sessions that were idle too long."""
        self._closed.set()

    def _find_access(self, schema: _Schema, access: Access) -> SessionAccess:
        """Return the same object as before, unless the tables or the principal's rights have changed."""
        principal = access.principal if isinstance(access, SessionAccess) else access
        names, storage = self._catalog.list_temporary(schema.name), self._catalog.temporary.storage
        known = schema.access
        if known is None or known.principal is not principal or known.names is not names:
            directory = "" if storage is None else storage.root
            known = schema.access = SessionAccess(principal, schema.name, names, directory)
        return known

    def _watch(self) -> None:
        """Have sessions end that were idle too long, of which no call asks."""
        while not self._closed.wait(_LOOK_SECONDS):
            len(self._sessions)
            with self._lock:
                if not self._schemas:
                    return
