"""The paths of jobs in the API: list, start, cancel.

Whoever may run `OPTIMIZE` of a table may start its jobs: the gateway itself is asked, as any client would.
"""

import socket
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import Field
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from lance_gateway.gateway.observability.console.handling import Body, read_body
from lance_gateway.gateway.observability.console.jobs.commands import JobKind
from lance_gateway.gateway.observability.console.jobs.supervisor import StartedJob, Supervisor
from lance_gateway.gateway.observability.console.sessions import ConsoleSession, ConsoleSessions
from lance_gateway.gateway.observability.console.visits import Visit, Visits
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.memwal.errors import (
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
)
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TableName
from lance_gateway.planner.access.rights import Access

RUNNING_JOBS = "SELECT * FROM system.jobs ORDER BY started_at"
"""Statement that lists the jobs that run over tables of the root."""
_MAX_NAME = 1_000


class StartBody(Body):
    """The body of /api/jobs."""

    kind: JobKind
    table_schema: str = Field(default=MAIN_SCHEMA, min_length=1, max_length=_MAX_NAME)
    table_name: str = Field(min_length=1, max_length=_MAX_NAME)
    confirms: str | None = None


class CancelBody(Body):
    """The body of /api/jobs/cancel."""

    job_id: str


class JobRoutes:
    """Jobs that users start.

    Args:
        sessions: who asks.
        visits: what they ask.
        supervisor: runs the jobs.
        find_access: what somebody may see and change.
    """

    def __init__(
        self,
        sessions: ConsoleSessions,
        visits: Visits,
        supervisor: Supervisor,
        find_access: Callable[[Identity], Access],
    ) -> None:
        self._sessions = sessions
        self._visits = visits
        self._supervisor = supervisor
        self._find_access = find_access

    def list_routes(self) -> list[BaseRoute]:
        """Return the paths, for the server of the HTTP port."""
        serve = self._visits.serve
        return [
            Route("/api/jobs", serve(self._list), methods=["GET"]),
            Route("/api/jobs", serve(self._start), methods=["POST"]),
            Route("/api/jobs/cancel", serve(self._cancel), methods=["POST"]),
        ]

    async def _list(self, visit: Visit) -> Response:
        session = await self._sessions.enter(visit)
        running = await visit.run(partial(session.connection.fetch, RUNNING_JOBS))
        # Reports may be long, so the one is told that is asked for.
        wanted = visit.request.query_params.get("job_id")
        jobs = self._supervisor.list_all() if wanted is None else (self._find(session, wanted),)
        access = self._find_access(session.identity)
        started = [job for job in jobs if _may_see(access, job)]
        # Records of this machine's processes have the numbers of these.
        host = socket.gethostname()
        records = {row["pid"]: row for row in running if row["host"] == host}
        return JSONResponse(
            {
                "max_running": self._supervisor.settings.max_running,
                "running": running,
                "started": [
                    {
                        **_describe(job, records.get(job.child.pid)),
                        **({} if wanted is None else {"report": job.report}),
                    }
                    for job in started
                ],
            }
        )

    async def _start(self, visit: Visit) -> Response:
        session = await self._sessions.enter(visit)
        body = await read_body(visit.request, StartBody)
        table = TableName(body.table_name, body.table_schema)
        return JSONResponse(_describe(await visit.run(partial(self._start_job, session, body, table))))

    def _start_job(self, session: ConsoleSession, body: StartBody, table: TableName) -> StartedJob:
        if table.is_temporary:
            raise InvalidInputError(f"{table!r} is a temporary table, which needs no jobs")
        session.connection.check(f"OPTIMIZE {table.sql}")
        confirmed = None
        if body.confirms is not None:
            confirmed = self._find(session, body.confirms)
            if confirmed.table != table or body.kind is not JobKind.CLEAN:
                raise PreconditionError(
                    f"job {body.confirms} has looked for garbage of {confirmed.table!r}: clean that table"
                )
        return self._supervisor.start(body.kind, table, session.user, confirmed)

    async def _cancel(self, visit: Visit) -> Response:
        session = await self._sessions.enter(visit)
        body = await read_body(visit.request, CancelBody)
        job = self._find(session, body.job_id)
        if job.user != session.user and not self._find_access(session.identity).is_admin:
            raise PermissionDeniedError(f"job {body.job_id} is of user {job.user!r}: ask them to cancel it")
        await visit.run(partial(self._supervisor.cancel, job))
        return JSONResponse(_describe(job))

    def _find(self, session: ConsoleSession, job_id: str) -> StartedJob:
        """Return a job that a user sees.

        Raises:
            NotFoundError: there is none.
        """
        job = self._supervisor.find(job_id)
        if not _may_see(self._find_access(session.identity), job):
            raise NotFoundError(f"there is no job {job_id!r}, or it ended long ago: see /api/jobs")
        return job


def _may_see(access: Access, job: StartedJob) -> bool:
    """Return whether somebody could have started a job: its report tells of all rows."""
    seen = access.of(job.table)
    return seen is not None and seen.is_unrestricted and access.can_write(job.table)


def _describe(job: StartedJob, record: dict[str, Any] | None = None) -> dict[str, Any]:
    progress = ("phase", "done", "total", "unit")
    return {
        "job_id": job.job_id,
        "kind": job.kind.value,
        "table_schema": job.table.schema,
        "table_name": job.table.table,
        "user": job.user,
        "state": job.state.value,
        "started_at": _format_time(job.started_at),
        "finished_at": None if job.finished_at is None else _format_time(job.finished_at),
        "progress": None if record is None or not job.is_running else {one: record[one] for one in progress},
        "lines": list(job.child.lines),
        "confirms": None if job.confirms is None else job.confirms.job_id,
        "may_be_confirmed": job.may_be_confirmed,
    }


def _format_time(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
