"""The paths of the console: pages under /console/, and the API that they and scripts use under /api/."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pyarrow as pa
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from gateway.auth.credentials import UnauthenticatedError
from gateway.observability.console.answers import FORMATS, NDJSON, Answer
from gateway.observability.console.handling import FAILURES, HEADERS, Body, handle_failures, read_body
from gateway.observability.console.jobs.routes import RUNNING_JOBS
from gateway.observability.console.sessions import COOKIE, ConsoleSession, ConsoleSessions, set_cookie
from gateway.observability.console.statements import Result
from gateway.observability.history import History
from memwal.errors import InvalidInputError
from protos.flight_sql import format_error

_STATIC = Path(__file__).with_name("static")


class LoginBody(Body):
    """The body of /api/login."""

    user: str | None = None
    password: str | None = None
    token: str | None = None


class _StatementBody(Body):
    sql: str
    parameters: list[Any] = Field(default=[], max_length=1000)
    options: dict[str, str | int | bool] = Field(default={}, max_length=20)


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
        history: what the gateway did in the last hour.
    """

    def __init__(self, sessions: ConsoleSessions, history: History) -> None:
        self._sessions = sessions
        self._history = history

    def list_routes(self) -> list[BaseRoute]:
        """Return the paths, for the server of the HTTP port."""
        return [
            Route("/api/openapi.json", self._describe),
            Route("/api/login", handle_failures(self._log_in), methods=["POST"]),
            Route("/api/logout", handle_failures(self._log_out), methods=["POST"]),
            Route("/api/session", handle_failures(self._show_session)),
            Route("/api/query", handle_failures(self._query), methods=["POST"]),
            Route("/api/plan", handle_failures(self._plan), methods=["POST"]),
            Route("/api/functions", handle_failures(self._list_functions)),
            Route("/api/tables", handle_failures(self._list_tables)),
            Route("/api/history", handle_failures(self._show_history)),
            Route("/api/statements", handle_failures(self._list_statements)),
            Route("/api/statements/kill", handle_failures(self._kill), methods=["POST"]),
            Route("/console", lambda _: RedirectResponse("/console/")),
            Mount("/console", _Pages(directory=_STATIC, html=True)),
        ]

    async def _describe(self, request: Request) -> Response:  # noqa: ARG002 - every handler has one
        return FileResponse(_STATIC / "openapi.json", headers=HEADERS)

    async def _log_in(self, request: Request) -> Response:
        self._sessions.check_origin(request)
        body = await read_body(request, LoginBody)
        cookie, session = await run_in_threadpool(self._sessions.log_in, body.user, body.password, body.token)
        response = JSONResponse(_describe_session(session))
        set_cookie(response, cookie, is_encrypted=request.url.scheme == "https")
        return response

    async def _log_out(self, request: Request) -> Response:
        self._sessions.find(request)
        self._sessions.log_out(request)
        response = JSONResponse({})
        response.delete_cookie(COOKIE, path="/")
        return response

    async def _show_session(self, request: Request) -> Response:
        self._sessions.check_origin(request)
        try:
            return JSONResponse(_describe_session(self._sessions.find(request)))
        except UnauthenticatedError:
            return JSONResponse({"user": None, "needs_login": self._sessions.needs_login})

    async def _query(self, request: Request) -> Response:
        session = await run_in_threadpool(self._sessions.find, request)
        chosen = FORMATS.get(request.headers.get("accept", "*/*").partition(";")[0].strip())
        chosen = chosen or FORMATS[NDJSON]
        body = await read_body(request, QueryBody)
        started = time.perf_counter()
        run = session.connection.run
        result = await run_in_threadpool(run, body.sql, body.parameters, body.options)
        try:
            answer = chosen.create(result.schema)
        except pa.ArrowException:
            result.cancel()
            raise
        stream = _stream(result, answer, body.max_rows, started)
        return StreamingResponse(stream, media_type=chosen.media_type)

    async def _plan(self, request: Request) -> Response:
        session = await run_in_threadpool(self._sessions.find, request)
        body = await read_body(request, PlanBody)
        explain = "EXPLAIN ANALYZE FORMAT JSON " if body.analyze else "EXPLAIN "
        run = session.connection.run
        result = await run_in_threadpool(run, explain + body.sql, body.parameters, body.options)
        rows = (await _read_all(request, result)).to_pylist()
        return JSONResponse({"tree": json.loads(rows[0]["plan"])} if body.analyze else {"plan": rows})

    async def _list_tables(self, request: Request) -> Response:
        session = await run_in_threadpool(self._sessions.find, request)
        return JSONResponse(await _fetch_all(session, _TABLES))

    async def _list_functions(self, request: Request) -> Response:
        session = await run_in_threadpool(self._sessions.find, request)
        rows = await run_in_threadpool(session.connection.fetch, _FUNCTIONS)
        return JSONResponse({"functions": _group_functions(rows)})

    async def _show_history(self, request: Request) -> Response:
        await run_in_threadpool(self._sessions.find, request)
        return JSONResponse({"samples": await run_in_threadpool(self._history.list_samples)})

    async def _list_statements(self, request: Request) -> Response:
        session = await run_in_threadpool(self._sessions.find, request)
        found = await _fetch_all(session, _STATEMENTS)
        for name, shown in _MAX_FINISHED.items():
            found[name] = [row for row in found[name] if row["statement"] not in _OWN][:shown]
        return JSONResponse(found)

    async def _kill(self, request: Request) -> Response:
        session = await run_in_threadpool(self._sessions.find, request)
        body = await read_body(request, KillBody)
        if "'" in body.query_id:
            raise InvalidInputError(f"{body.query_id!r} is no id of a statement: see /api/statements")
        rows = await run_in_threadpool(session.connection.fetch, f"KILL QUERY '{body.query_id}'")
        return JSONResponse(rows[0])


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


async def _read_all(request: Request, result: Result) -> pa.Table:
    """Return all rows of a small result; stop its statement when its client goes away."""

    async def watch() -> None:
        # The body was read: what comes next is that the client goes.
        while (await request.receive())["type"] != "http.disconnect":
            pass
        result.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        rows = await anyio.to_thread.run_sync(_read_or_error, result)
        tasks.cancel_scope.cancel()
    if isinstance(rows, Exception):
        raise rows
    return rows


def _read_or_error(result: Result) -> pa.Table | Exception:
    """Return all rows, or what failed: a group of tasks would wrap it."""
    try:
        return result.read_all()
    except FAILURES as error:
        return error


async def _fetch_all(session: ConsoleSession, statements: dict[str, str]) -> dict[str, Any]:
    return {name: await run_in_threadpool(session.connection.fetch, sql) for name, sql in statements.items()}


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
    result: Result, answer: Answer, max_rows: int | None, started: float
) -> AsyncIterator[bytes]:
    """Yield the rows of a result; stop its statement when nobody reads them any more."""
    # A thread that waits for rows is left behind when the client goes: the cancellation ends its wait.
    run = partial(anyio.to_thread.run_sync, abandon_on_cancel=True)
    batches, rows, is_cut = iter(result), 0, False
    try:
        yield answer.begin()
        while (batch := await run(next, batches, None)) is not None:
            if max_rows is not None and rows + batch.num_rows > max_rows:
                batch, is_cut = batch.slice(0, max_rows - rows), True
            rows += batch.num_rows
            chunks = answer.write(batch)
            while (chunk := await run(next, chunks, None)) is not None:
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
    finally:
        result.cancel()
