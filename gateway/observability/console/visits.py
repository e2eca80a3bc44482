"""Requests of the API while they are answered: how many run and wait, and what ends when a client leaves.

Steps that may wait run in threads of executors of this port. A request waits for its turn on the event loop,
where it takes no thread. Of each user, so many requests run at a time and some more wait; of logins, so many
of all clients together, since nobody is known yet. A request whose client leaves gives up its turn at once,
and its statement is stopped; its place becomes free when its thread has ended.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, ClassVar, Final, Generic, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lance_gateway.gateway.observability.console.handling import FAILURES, HEADERS, build_failure
from lance_gateway.memwal.errors import ResourcesExhaustedError

T = TypeVar("T")
LOGINS: Final = None
"""Whose place a login takes."""
_STATEMENT_THREADS: Final = 128
# Checks of tokens may wait for the keys of an identity provider.
_CHECKING_THREADS: Final = 4
# As many passwords are verified at a time.
_LOGIN_THREADS: Final = 2
_MAX_LOGINS: Final = 16
# Of one user.
_MAX_RUNNING: Final = 16
_MAX_WAITING: Final = 32
_PATIENCE_SECONDS: Final = 30.0
# How often a statement is stopped whose client has left, until it ends: it may be between two calls.
_STOP_SECONDS: Final = 0.2


class TooManyRequestsError(ResourcesExhaustedError):
    """As many requests are in progress as may be."""

    retry_seconds: ClassVar[int] = 1


class ClientLeftError(Exception):
    """The client of a request has left: an answer would reach nobody."""


class _Queue:
    """Requests that take turns.

    Args:
        running: that run at a time.
        waiting: beside them.
    """

    def __init__(self, running: int, waiting: int) -> None:
        self.slots = asyncio.Semaphore(running)
        self.places = running + waiting
        self.taken = 0


class _Step(Generic[T]):
    """Work in a thread.

    Attributes:
        future: its result.
        ended: is done when the work has ended or was cancelled before it began; has no result.
    """

    def __init__(self, future: Future[T]) -> None:
        self._loop = asyncio.get_running_loop()
        self.future = future
        self.ended: asyncio.Future[None] = self._loop.create_future()
        future.add_done_callback(self._report)

    def _report(self, _: Future[T]) -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Visits:
    """The requests of all clients of the API, on one event loop.

    Args:
        stop: stops what runs for a request in the gateway, by the name of the request.
    """

    def __init__(self, stop: Callable[[str], object]) -> None:
        self.stop = stop
        self._users: dict[str, _Queue] = {}
        self._logins = _Queue(_LOGIN_THREADS, _MAX_LOGINS - _LOGIN_THREADS)
        self._executors = {
            kind: ThreadPoolExecutor(threads, thread_name_prefix=f"console-{kind}")
            for kind, threads in (
                ("statements", _STATEMENT_THREADS),
                ("checks", _CHECKING_THREADS),
                ("logins", _LOGIN_THREADS),
            )
        }
        self._ending: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Let no more steps begin."""
        for executor in self._executors.values():
            executor.shutdown(wait=False, cancel_futures=True)

    def serve(self, handle: "Callable[[Visit], Awaitable[Response]]") -> "Endpoint":
        """Return what answers the requests of a path."""
        return Endpoint(self, handle)

    def start(self, kind: str, step: Callable[[], T]) -> _Step[T]:
        """Run a step in a thread of a kind."""
        return _Step(self._executors[kind].submit(step))

    def take_place(self, user: str | None) -> _Queue:
        """Take a place among the requests of a user, or among `LOGINS`.

        Raises:
            TooManyRequestsError: there is none.
        """
        queue = self._logins if user is LOGINS else self._users.get(user)
        if queue is None:
            queue = _Queue(_MAX_RUNNING, _MAX_WAITING)
        if queue.taken >= queue.places:
            what = "logins" if user is LOGINS else f"requests of user {user!r}"
            raise TooManyRequestsError(
                f"{queue.taken} {what} are in progress, which is as many as may be: try again in a moment"
            )
        queue.taken += 1
        if user is not LOGINS:
            self._users[user] = queue
        return queue

    def leave_place(self, user: str | None, queue: _Queue) -> None:
        """Give a place back."""
        queue.taken -= 1
        if user is not LOGINS and not queue.taken:
            del self._users[user]

    def end_later(self, visit: "Visit") -> None:
        """End a request behind its answer."""
        task = asyncio.create_task(visit.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class Visit:
    """One request while it is answered.

    Attributes:
        request: as it came.
        name: that its statements bear in the gateway; no other request has it.
        at_end: what is done when the answer was sent, or the client has left, and no thread works on it.
    """

    def __init__(self, request: Request, visits: Visits) -> None:
        self.request = request
        self.name = secrets.token_hex(16)
        self.at_end = ExitStack()
        self._visits = visits
        self._queue: _Queue | None = None
        self._left: asyncio.Task[None] | None = None
        self._step: _Step[Any] | None = None

    def enter(self, user: str | None) -> None:
        """Take a place among the requests of a user, or among `LOGINS`, until the end.

        Raises:
            TooManyRequestsError: there is none.
        """
        self._queue = self._visits.take_place(user)
        self.at_end.callback(self._visits.leave_place, user, self._queue)

    async def check(self, step: Callable[[], T]) -> T:
        """Run a short step in a thread, such as the check of a token."""
        return await self._finish(self._visits.start("checks", step))

    async def run(self, step: Callable[[], T], kind: str = "statements") -> T:
        """Run a step in a thread when it is the turn of this request, and not beyond its client.

        The body of the request must have been read.

        Args:
            step: what is done. Its statements bear the name of this request, so that they can be stopped.
            kind: of threads.

        Raises:
            ClientLeftError: the client has left.
            TooManyRequestsError: the turn did not come in time.
        """
        await self._take_turn()
        self._step = started = self._visits.start(kind, step)
        await self._wait(started.ended)
        return started.future.result()

    async def proceed(self, step: Callable[[], T]) -> T:
        """Run a further step of a request whose answer has begun, which sees that the client leaves."""
        self._step = started = self._visits.start("statements", step)
        return await self._finish(started)

    @staticmethod
    async def _finish(started: _Step[T]) -> T:
        await started.ended
        return started.future.result()

    async def _take_turn(self) -> None:
        queue, self._queue = self._queue, None
        if queue is None:
            return
        turn = asyncio.ensure_future(queue.slots.acquire())
        try:
            await self._wait(turn, _PATIENCE_SECONDS)
        finally:
            if turn.done() and not turn.cancelled():
                self.at_end.callback(queue.slots.release)
            turn.cancel()
        if not turn.done():
            raise TooManyRequestsError(
                f"the request waited {_PATIENCE_SECONDS:g} s for others to end: try again in a moment"
            )

    async def _wait(self, awaited: asyncio.Future[Any], seconds: float | None = None) -> None:
        """Wait for something, for a time, unless the client leaves."""
        if self._left is None:
            self._left = asyncio.create_task(self._await_leaving())
        await asyncio.wait({awaited, self._left}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._left.done() and not awaited.done():
            raise ClientLeftError

    async def _await_leaving(self) -> None:
        # The body was read: what comes next is that the client leaves.
        while (await self.request.receive())["type"] != "http.disconnect":
            pass

    def stop_watching(self) -> None:
        """Leave it to the answer to see that the client leaves."""
        if self._left is not None:
            self._left.cancel()
            self._left = None

    async def end(self) -> None:
        """Stop what goes on for this request, and give its place back."""
        self.stop_watching()
        if self._step is not None:
            self._step.future.cancel()  # where it has not begun
            while not self._step.future.done():
                self._visits.stop(self.name)
                await asyncio.wait({self._step.ended}, timeout=_STOP_SECONDS)
            # What it has begun may go on without it.
            self._visits.stop(self.name)
        self.at_end.close()


class Endpoint:
    """Answers the requests of a path; failures with JSON and a fitting status.

    Args:
        visits: that these are of.
        handle: returns the answer of one.
    """

    def __init__(self, visits: Visits, handle: Callable[[Visit], Awaitable[Response]]) -> None:
        self._visits = visits
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        visit = Visit(Request(scope, receive, send), self._visits)
        try:
            try:
                response = await self._handle(visit)
            except FAILURES as error:
                response = build_failure(error)
            response.headers.update(HEADERS)
            visit.stop_watching()
            await response(scope, receive, send)
        except (ClientLeftError, ClientDisconnect, CancelledError):
            pass  # an answer would reach nobody
        finally:
            self._visits.end_later(visit)
