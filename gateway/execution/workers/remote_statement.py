"""A statement that workers know by its number: asks one of them, and defines the statement where it must."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from hashlib import blake2b
from typing import Any

from lance_gateway.gateway.execution.query import current_statement
from lance_gateway.gateway.execution.workers.messages import (
    Answer,
    Answered,
    Check,
    Checked,
    Definition,
    Failed,
    Request,
    Statement,
    Unknown,
)
from lance_gateway.gateway.execution.workers.pool import WorkerPool
from lance_gateway.gateway.execution.workers.process import Lease, WorkerLostError, WorkerProcess
from lance_gateway.planner.bridge.run_control import RunControl

ATTEMPTS = 3
"""How often a statement is run until its worker is not lost."""


def find_control() -> RunControl:
    """Return the control of the statement that the calling thread serves, or one that nobody uses."""
    serving = current_statement()
    return RunControl() if serving is None else serving.control


class RemoteStatement:
    """A statement of one principal; safe to share between threads.

    Args:
        pool: the workers.
        user: name of the principal.
        text: of the statement.
        define: returns all that its plan depends on.

    Attributes:
        number: by which the workers know it.
        favourite: worker that was asked last; None at first.
    """

    def __init__(
        self, pool: WorkerPool, user: str, text: str | bytes, define: Callable[[], Definition]
    ) -> None:
        self.number = pool.next_number()
        self.favourite: WorkerProcess | None = None
        name = blake2b(f"{user}\0".encode(), digest_size=16)
        name.update(text.encode() if isinstance(text, str) else text)
        self._pool = pool
        self._name = name.digest()
        self._define = define
        self._knowing: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()
        self._checked: Checked | None = None

    def check(self) -> Checked:
        """Have the statement planned, once.

        Raises:
            LanceGatewayError: it is not valid, or was stopped.
        """
        if self._checked is None:
            self._checked = self.ask_for_value(Check, find_control())
        return self._checked

    def ask_for_value(self, create: Callable[[Statement], Request], control: RunControl) -> Any:  # noqa: ANN401 - depends on the request
        """Return the answer to a request; if its worker is lost, ask again.

        Raises:
            LanceGatewayError: the statement failed, or was stopped.
        """
        for attempt in range(ATTEMPTS):
            with suppress(WorkerLostError) if attempt + 1 < ATTEMPTS else nullcontext():
                # To its end, where its worker forgets the statement.
                answers = [answer for answer, _ in self.ask(create, control)]
                assert isinstance(answers[-1], Answered)  # noqa: S101 - the last of a request that succeeds
                return answers[-1].value
        raise AssertionError

    def ask(
        self, create: Callable[[Statement], Request], control: RunControl, *, is_bound: bool = False
    ) -> Iterator[tuple[Answer, Lease]]:
        """Yield the answers of a worker; define the statement if the worker does not know it.

        Args:
            create: returns the request.
            control: stops it.
            is_bound: whether the favourite must be asked.

        Raises:
            LanceGatewayError: the statement failed, or was stopped.
            WorkerFailedError: something went wrong that nobody expected.
        """
        with self._pool.lease(self._name, self.favourite, is_bound=is_bound) as (worker, lease):
            self.favourite = worker
            definition = None if worker in self._knowing else self._define()
            while True:
                for answer in lease.ask(create(Statement(self.number, definition)), control):
                    if isinstance(answer, Failed):
                        raise answer.to_error()
                    if isinstance(answer, Unknown):
                        definition = self._define()
                        break
                    self._knowing.add(worker)
                    yield answer, lease
                else:
                    return
