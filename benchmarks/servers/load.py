"""Load: many ADBC clients, each with a connection of its own, spread over a few client processes.

The clients run the same code whichever server they ask. They wait for one another between rounds, so that two
servers under comparison can take turns while both keep their connections open.
"""

import multiprocessing as mp
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np
import numpy.typing as npt
import psutil  # type: ignore[import-untyped]

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.servers.server import ServerProcess
from lance_gateway.memwal.errors import InvalidInputError

_PROCESSES = 2
KEY = "{key}"


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements that a client repeats; every result must be one row.

    Attributes:
        sql: The text. With `{key}` in it, each execution is a text of its own.
        keys: Taken in turn, each client beginning elsewhere: as `{key}`, else as the bound parameter.
    """

    sql: str
    keys: tuple[int, ...] = ()

    @property
    def is_bound(self) -> bool:
        """Whether keys are bound: the client then prepares the text once and keeps its cursor."""
        return bool(self.keys) and KEY not in self.sql


@dataclass(frozen=True, slots=True)
class Round:
    """Measurements of the clients of one server in one round.

    Attributes:
        seconds: Of each execution, from the call to the fetched result.
        duration: Of the round, in seconds.
        server_cpu: Seconds of processor time that the server took meanwhile.
    """

    seconds: npt.NDArray[np.float64]
    duration: float
    server_cpu: float

    @property
    def per_second(self) -> float:
        """Executions per second, all clients together."""
        return len(self.seconds) / self.duration

    def percentile_ms(self, percentile: float) -> float:
        """Return a percentile (0-100) of the executions, in milliseconds."""
        return float(np.percentile(self.seconds, percentile)) * 1e3

    @property
    def cpu_ms(self) -> float:
        """The server's processor time per execution, in milliseconds."""
        return self.server_cpu / len(self.seconds) * 1e3


class Clients:
    """Connected clients of one server, idle between rounds."""

    def __init__(self, server: ServerProcess, pipes: Sequence[Connection]) -> None:
        self._server = psutil.Process(server.pid)
        self._pipes = pipes

    def run(self, seconds: float) -> Round:
        """Let every client execute one statement after the other for so long.

        Raises:
            WrongAnswerError: A client failed; the message is its error's.
        """
        before, started = _read_cpu_seconds(self._server), time.perf_counter()
        for pipe in self._pipes:
            pipe.send(seconds)
        answers = [pipe.recv() for pipe in self._pipes]
        duration, cpu = time.perf_counter() - started, _read_cpu_seconds(self._server) - before
        for answer in answers:
            if isinstance(answer, str):
                raise WrongAnswerError(f"a client failed: {answer}")
        return Round(np.concatenate(answers), duration, cpu)


@contextmanager
def connect_clients(
    server: ServerProcess, statements: Statements, *, clients: int, kind: type["Client"] | None = None
) -> Iterator[Clients]:
    """Start the clients; each has executed the statement once when they are ready.

    Args:
        server: To connect to.
        statements: What to ask.
        clients: How many.
        kind: Of client; by default the ones that ask by ADBC.

    Raises:
        InvalidInputError: No clients are wanted.
        WrongAnswerError: A client can't be served.
    """
    if clients < 1:
        raise InvalidInputError(f"{clients} clients: at least one is needed")
    spawning = mp.get_context("spawn")
    processes = min(clients, _PROCESSES)
    shares = [clients // processes + (number < clients % processes) for number in range(processes)]
    with ExitStack() as stack:
        pipes = []
        for number, share in enumerate(shares):
            ours, theirs = spawning.Pipe()
            arguments = (theirs, kind or AdbcClient, server.uri, statements, share, number)
            process = spawning.Process(target=_run_client_process, args=arguments, daemon=True)
            process.start()
            theirs.close()
            stack.callback(process.join)
            stack.callback(ours.close)
            pipes.append(ours)
        for pipe in pipes:
            problem = pipe.recv()
            if problem is not None:
                raise WrongAnswerError(f"a client of {server.uri} failed: {problem}")
        yield Clients(server, pipes)


def alternate(
    sides: Mapping[str, Clients], *, rounds: int, seconds: float, warmups: int = 1
) -> dict[str, list[Round]]:
    """Run the sides in turn, round after round, the first one changing; warm-up rounds are dropped."""
    names = list(sides)
    results: dict[str, list[Round]] = {name: [] for name in names}
    for number in range(-warmups, rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            result = sides[name].run(seconds)
            if number >= 0:
                results[name].append(result)
    return results


def _read_cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _run_client_process(
    pipe: Connection, kind: type["Client"], uri: str, statements: Statements, clients: int, number: int
) -> None:
    """Run `clients` threads in rounds, as commanded through the pipe, until the pipe closes."""
    with ExitStack() as stack:
        try:
            opened = [kind(stack, uri, statements, number * clients + index) for index in range(clients)]
            for client in opened:
                client.execute()
        except Exception as error:  # noqa: BLE001 - the parent raises it
            pipe.send(repr(error))
            return
        pipe.send(None)
        while True:
            try:
                seconds = pipe.recv()
            except EOFError:
                return
            pipe.send(_run_round(opened, seconds))


def _run_round(clients: Sequence["Client"], seconds: float) -> npt.NDArray[np.float64] | str:
    ends_at = time.perf_counter() + seconds
    threads = [threading.Thread(target=client.run_until, args=(ends_at,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    problems = [repr(client.problem) for client in clients if client.problem is not None]
    return problems[0] if problems else np.array([value for client in clients for value in client.seconds])


class Client(ABC):
    """One connection, which executes one statement after the other.

    Args:
        stack: Closes the connection.
        uri: Of the server.
        statements: What to ask.
        number: Among the clients; decides the first key.
    """

    @abstractmethod
    def __init__(self, stack: ExitStack, uri: str, statements: Statements, number: int = 0) -> None:
        del stack, uri, number
        self._statements = statements
        self.seconds: list[float] = []
        self.problem: Exception | None = None

    @abstractmethod
    def execute(self) -> None:
        """Execute the next statement and take its answer.

        Raises:
            WrongAnswerError: It is not what it must be.
        """

    def run_until(self, ends_at: float) -> None:
        """Execute until the clock (`time.perf_counter`) shows `ends_at`; keep the times or the problem."""
        self.seconds.clear()
        try:
            started = time.perf_counter()
            while started < ends_at:
                self.execute()
                ended = time.perf_counter()
                self.seconds.append(ended - started)
                started = ended
        except Exception as error:  # noqa: BLE001 - the parent process raises it
            self.problem = error


class AdbcClient(Client):
    """Queries by ADBC; every result must be one row."""

    def __init__(self, stack: ExitStack, uri: str, statements: Statements, number: int = 0) -> None:
        super().__init__(stack, uri, statements, number)
        self._connection = stack.enter_context(flight_sql.connect(uri, autocommit=True))
        self._kept = stack.enter_context(self._connection.cursor())
        # Neighbouring clients ask for different keys at any moment.
        self._turn = number * 101

    def execute(self) -> None:
        """Execute the next statement and fetch its row."""
        sql, keys = self._statements.sql, self._statements.keys
        key = keys[self._turn % len(keys)] if keys else None
        if self._statements.is_bound:
            self._kept.execute(sql, (key,))
            rows = self._kept.fetch_arrow_table().num_rows
        else:
            # A cursor of its own, as connection pools and data frame libraries take one: prepare, run, close.
            with self._connection.cursor() as cursor:
                cursor.execute(sql.replace(KEY, str(key)))
                rows = cursor.fetch_arrow_table().num_rows
        if rows != 1:
            raise WrongAnswerError(f"{rows} rows instead of one: {sql} with key {key}")
        self._turn += 1
