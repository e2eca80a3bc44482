"""The paths of the console: pages under /console/, and the API that they and scripts use under /api/."""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from lance_gateway.gateway.auth.credentials import UnauthenticatedError, normalise_address
from lance_gateway.gateway.observability.console.answers import FORMATS, NDJSON, Answer
from lance_gateway.gateway.observability.console.handling import FAILURES, HEADERS, Body, read_body
from lance_gateway.gateway.observability.console.jobs.routes import RUNNING_JOBS
from lance_gateway.gateway.observability.console.sessions import (
    COOKIE,
    ConsoleSession,
    ConsoleSessions,
    set_cookie,
)
from lance_gateway.gateway.observability.console.statements import Result
from lance_gateway.gateway.observability.console.visits import LOGINS, Visit, Visits
from lance_gateway.gateway.observability.history import History
from lance_gateway.gateway.observability.hosts import find_scheme
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.access.rights import Access
from lance_gateway.protos.flight_sql import format_error

_STATIC = Path(__file__).with_name("static")
_MAX_DEPTH = 32
_MAX_LOGIN_BYTES = 64 << 10
_LOGIN_SECONDS = 10.0


class LoginBody(Body):
    """The body of /api/login."""

    user: str | None = None
    password: str | None = None
    token: str | None = None


class _StatementBody(Body):
    sql: str
    parameters: list[Any] = Field(default=[], max_length=1000)
    options: dict[str, str | int | bool] = Field(default={}, max_length=20)

    @field_validator("parameters")
    @classmethod
    def _check_depth(cls, value: list[Any]) -> list[Any]:
        level: list[Any] = value
        for _ in range(_MAX_DEPTH):
            level = [part for one in level for part in _list_parts(one)]
            if not level:
                return value
        raise ValueError(f"lists and objects are nested more than {_MAX_DEPTH} deep")


class QueryBody(_StatementBody):
    """The body of /api/query."""

    max_rows: int | None = Field(default=None, ge=0)


class PlanBody(_StatementBody):
    """The body of /api/plan."""

    analyze: bool = False


class KillBody(Body):
    """The body of /api/statements/kill."""

    query_id: str


class Console:
    """The pages and the API.

    Args:
        sessions: who asks.
        visits: what they ask.
        history: what the gateway did in the last hour.
        find_access: what somebody may see.
    """

    def __init__(
        self,
        sessions: ConsoleSessions,
        visits: Visits,
        history: History,
        find_access: Callable[[Identity], Access],
    ) -> None:
        self._sessions = sessions
        self._visits = visits
        self._history = history
        self._find_access = find_access

    def list_routes(self) -> list[BaseRoute]:
        """Return the paths, for the server of the HTTP port."""
        serve = self._visits.serve
        return [
            Route("/api/openapi.json", self._describe),
            Route("/api/login", serve(self._log_in), methods=["POST"]),
            Route("/api/logout", serve(self._log_out), methods=["POST"]),
            Route("/api/session", serve(self._show_session), methods=["GET"]),
            Route("/api/query", serve(self._query), methods=["POST"]),
            Route("/api/plan", serve(self._plan), methods=["POST"]),
            Route("/api/functions", serve(self._list_functions), methods=["GET"]),
            Route("/api/tables", serve(self._list_tables), methods=["GET"]),
            Route("/api/history", serve(self._show_history), methods=["GET"]),
            Route("/api/statements", serve(self._list_statements), methods=["GET"]),
            Route("/api/statements/kill", serve(self._kill), methods=["POST"]),
            Route("/console", self._redirect),
            Mount("/console", _Pages(directory=_STATIC, html=True)),
        ]

    async def _describe(self, request: Request) -> Response:  # noqa: ARG002 - every handler has one
        return FileResponse(_STATIC / "openapi.json", headers=HEADERS)

    async def _redirect(self, request: Request) -> Response:  # noqa: ARG002 - as above
        return RedirectResponse("/console/")

    async def _log_in(self, visit: Visit) -> Response:
        request = visit.request
        self._sessions.check_origin(request)
        address = normalise_address("" if request.client is None else request.client.host)
        self._sessions.check_address(address)
        body = await read_body(request, LoginBody, _MAX_LOGIN_BYTES, _LOGIN_SECONDS)
        visit.enter(LOGINS)
        log_in = partial(self._sessions.log_in, body.user, body.password, body.token, address)
        cookie, session = await visit.run(log_in, "logins")
        response = JSONResponse(_describe_session(session))
        set_cookie(response, cookie, is_encrypted=find_scheme(request.headers) == "https")
        return response

    async def _log_out(self, visit: Visit) -> Response:
        await self._find(visit)
        self._sessions.log_out(visit.request)
        response = JSONResponse({})
        response.delete_cookie(COOKIE, path="/")
        return response

    async def _show_session(self, visit: Visit) -> Response:
        try:
            return JSONResponse(_describe_session(await self._find(visit)))
        except UnauthenticatedError:
            return JSONResponse({"user": None, "needs_login": self._sessions.needs_login})

    async def _query(self, visit: Visit) -> Response:
        session = await self._find(visit)
        chosen = FORMATS.get(visit.request.headers.get("accept", "*/*").partition(";")[0].strip())
        chosen = chosen or FORMATS[NDJSON]
        body = await read_body(visit.request, QueryBody)
        started = time.perf_counter()

        def run() -> Result:
            result = session.connection.run(body.sql, body.parameters, body.options)
            # Also where nobody waits for it any more: its statement begins when its first rows are read.
            visit.at_end.callback(result.cancel)
            return result

        result = await visit.run(run)
        answer = chosen.create(result.schema)
        stream = _stream(visit, result, answer, body.max_rows, started)
        return StreamingResponse(stream, media_type=chosen.media_type)

    async def _plan(self, visit: Visit) -> Response:
        session = await self._find(visit)
        body = await read_body(visit.request, PlanBody)
        explain = "EXPLAIN ANALYZE FORMAT JSON " if body.analyze else "EXPLAIN "

        def run() -> list[dict[str, Any]]:
            result = session.connection.run(explain + body.sql, body.parameters, body.options)
            rows: list[dict[str, Any]] = result.read_all().to_pylist()
            return rows

        rows = await visit.run(run)
        return JSONResponse({"tree": json.loads(rows[0]["plan"])} if body.analyze else {"plan": rows})

    async def _list_tables(self, visit: Visit) -> Response:
        return JSONResponse(await self._fetch_all(visit, _TABLES))

    async def _list_functions(self, visit: Visit) -> Response:
        found = await self._fetch_all(visit, {"functions": _FUNCTIONS})
        return JSONResponse({"functions": _group_functions(found["functions"])})

    async def _show_history(self, visit: Visit) -> Response:
        session = await self._find(visit)
        user = None if self._find_access(session.identity).is_admin else session.user
        samples = await visit.run(partial(self._history.list_samples, user))
        return JSONResponse({"samples": samples})

    async def _list_statements(self, visit: Visit) -> Response:
        found = await self._fetch_all(visit, _STATEMENTS)
        for name, shown in _MAX_FINISHED.items():
            found[name] = [row for row in found[name] if row["statement"] not in _OWN][:shown]
        return JSONResponse(found)

    async def _kill(self, visit: Visit) -> Response:
        session = await self._find(visit)
        body = await read_body(visit.request, KillBody)
        if "'" in body.query_id:
            raise InvalidInputError(f"{body.query_id!r} is not an id of a statement: see /api/statements")
        rows = await visit.run(partial(session.connection.fetch, f"KILL QUERY '{body.query_id}'"))
        return JSONResponse(rows[0])

    async def _find(self, visit: Visit) -> ConsoleSession:
        return await self._sessions.enter(visit)

    async def _fetch_all(self, visit: Visit, statements: dict[str, str]) -> dict[str, Any]:
        """Return the rows of several small results."""
        session = await self._find(visit)

        def fetch() -> dict[str, Any]:
            return {name: session.connection.fetch(sql) for name, sql in statements.items()}

        return await visit.run(fetch)


_FUNCTIONS = "SHOW FUNCTIONS"
_TABLES = {
    "tables": "SELECT t.*, coalesce(i.is_insertable_into = 'YES', false) AS is_writable "
    "FROM system.tables t LEFT JOIN information_schema.tables i USING (table_schema, table_name) "
    "ORDER BY table_schema, table_name",
    "regions": "SELECT * FROM system.regions ORDER BY table_schema, table_name, region_id",
    "generations": "SELECT table_schema, table_name, count(*) AS waiting, sum(rows) AS rows, "
    "max(lag_seconds) AS lag_seconds FROM system.generations WHERE NOT merged "
    "GROUP BY table_schema, table_name",
    "columns": "SELECT table_schema, table_name, column_name, data_type, udt_name, is_nullable "
    "FROM information_schema.columns ORDER BY table_schema, table_name, ordinal_position",
}
_STATEMENTS = {
    "under_way": "SELECT * FROM system.queries WHERE finished_at IS NULL ORDER BY created_at",
    "slowest": "SELECT * FROM system.queries WHERE finished_at IS NOT NULL "
    "ORDER BY duration_ms DESC LIMIT 500",
    "latest": "SELECT * FROM system.queries WHERE finished_at IS NOT NULL "
    "ORDER BY finished_at DESC LIMIT 500",
    "sessions": "SELECT * FROM system.sessions ORDER BY last_used_at DESC LIMIT 200",
    "writers": "SELECT * FROM system.writers ORDER BY table_schema, table_name, region_id LIMIT 1000",
    "workers": "SELECT * FROM system.workers ORDER BY pid",
}


_MAX_FINISHED = {"slowest": 20, "latest": 50}
# What pages ask every few seconds would hide what users ask.
_OWN = frozenset((*_TABLES.values(), *_STATEMENTS.values(), RUNNING_JOBS, _FUNCTIONS))


class _Pages(StaticFiles):
    """Files of the package, with the headers that pages need."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS | {"cache-control": "no-cache"})
        return response


def _group_functions(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the functions by name, each with all of its signatures."""
    functions: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: str(row["function_name"])):
        name = row["function_name"]
        function = functions.setdefault(
            name,
            {
                "name": name,
                "kind": row["function_type"],
                "syntax": row["syntax_example"],
                "description": row["description"],
                "signatures": [],
            },
        )
        signature = f"{name}({', '.join(row['parameter_types'] or ())}) -> {row['return_type']}"
        if signature not in function["signatures"]:
            function["signatures"].append(signature)
    return list(functions.values())


def _describe_session(session: ConsoleSession) -> dict[str, object]:
    return {"user": session.user, "csrf_token": session.csrf, "needs_login": session.token is not None}


async def _stream(
    visit: Visit, result: Result, answer: Answer, max_rows: int | None, started: float
) -> AsyncIterator[bytes]:
    """Yield the rows of a result."""
    batches, rows, is_cut = iter(result), 0, False
    try:
        yield answer.begin()
        while (batch := await visit.proceed(partial(next, batches, None))) is not None:
            if max_rows is not None and rows + batch.num_rows > max_rows:
                batch, is_cut = batch.slice(0, max_rows - rows), True
            rows += batch.num_rows
            chunks = answer.write(batch)
            while (chunk := await visit.proceed(partial(next, chunks, None))) is not None:
                yield chunk
            if is_cut:
                break
        seconds = round(time.perf_counter() - started, 6)
        yield answer.end(
            {"done": True, "row_count": rows, "cut": is_cut, "affected": result.affected, "seconds": seconds}
        )
    except FAILURES as error:
        # The status is sent already. A format without room for words breaks off, which its readers notice.
        failure = answer.fail(format_error(error))
        if failure is None:
            raise
        yield failure


def _list_parts(value: object) -> Iterable[Any]:
    """Return what a value of JSON is made of."""
    match value:
        case list():
            return value
        case dict():
            return value.values()
        case _:
            return ()
