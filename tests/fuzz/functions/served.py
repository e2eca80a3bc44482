"""Sends calls of functions to a real gateway with workers, as a user who may read nothing.

The gateway and its workers are a process group, whose memory is watched. By hand:

    python -m tests.fuzz.functions.served --kinds 6 --calls 24
"""

import argparse
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pyarrow as pa
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.fuzz.functions.calls import CALLS_OF_KINDS, KINDS_OF_A_FUNCTION, iterate_calls, list_names
from tests.fuzz.functions.running import Runner
from tests.gateway import rpc
from tests.support.processes.servers import GatewayProcess

STATEMENT_SECONDS = 2.0
LATEST_SECONDS = 20.0
"""With its limit, the end of a worker that does not stop, its replacement, and a machine that is busy."""
WORKER_BYTES = 1 << 30
GROUP_BYTES = 5 << 30
"""The front process, the one that workers are forked from, two workers, one that runs a suspect alone."""
_CLIENTS = 3
_AT_ONCE = 200
# What clients see as INTERNAL and is none: pyarrow has no other status for it.
_EXHAUSTED = re.compile(r"has ended the process|RESOURCE_EXHAUSTED|of memory that one statement may hold")
_LOOK_SECONDS = 0.1
_PAUSE_SECONDS = 1.0


@dataclass(slots=True)
class Verdicts:
    """What became of the statements.

    Attributes:
        counts: by outcome.
        surprises: statements with an outcome that none may have, and what it was.
        slowest: seconds of the statement that took longest.
        peak_bytes: of memory, the whole group together.
        paused: seconds in which this process did not run either, so that nothing can be said of others.
    """

    counts: Counter[str] = field(default_factory=Counter)
    surprises: list[tuple[str, str]] = field(default_factory=list)
    slowest: float = 0.0
    peak_bytes: int = 0
    paused: float = 0.0

    def note(self, statement: str, outcome: str, text: str, seconds: float) -> None:
        """Count one statement."""
        self.counts[outcome] += 1
        self.slowest = max(self.slowest, seconds)
        if outcome in {"INTERNAL", "lost"} or seconds > LATEST_SECONDS:
            self.surprises.append((statement, f"{outcome} after {seconds:.1f} s: {text[:500]}"))


class Group:
    """A gateway with two workers for an anonymous user without any right, and all of its processes."""

    def __init__(self, root: Path) -> None:
        (root / "tables").mkdir()
        policy = root / "policy.toml"
        policy.write_text("[roles.nobody]\ngrants = []\n")
        self.server = GatewayProcess(
            root / "tables",
            *("--set", "server.workers=2"),
            *("--set", f"auth.policy_file={policy}"),
            *("--set", f"limits.worker_memory_bytes={WORKER_BYTES}"),
            *("--set", f"limits.query_timeout={STATEMENT_SECONDS}"),
            *("--set", "observability.http_port=off"),
        )
        self.uri = self.server.uri
        self._front = psutil.Process(self.server.pid)
        with flight.FlightClient(self.uri) as client:  # waits for the workers
            while send(client, "SELECT 1 + 1")[0] != "rows":
                pass

    def is_alive(self) -> bool:
        """Return whether the front process is still the one that was started."""
        return self._front.is_running() and self._front.status() != psutil.STATUS_ZOMBIE

    def read_memory_bytes(self) -> int:
        """Return the memory of all processes; what they share is counted once."""
        total = 0
        for process in (self._front, *self._front.children(recursive=True)):
            try:
                total += process.memory_full_info().uss
            except psutil.Error:  # it has just ended
                continue
        return total

    def kill(self) -> None:
        """End the front process, and with it the others."""
        self.server.kill()


@contextmanager
def watch_memory(group: Group, verdicts: Verdicts) -> Iterator[None]:
    """Note the largest memory of a group; end it where that is more than it may have."""
    over = threading.Event()

    def watch() -> None:
        looked_at = time.monotonic()
        while not over.wait(_LOOK_SECONDS):
            now = time.monotonic()
            verdicts.paused += now - looked_at if now - looked_at > _PAUSE_SECONDS else 0.0
            looked_at = now
            verdicts.peak_bytes = max(verdicts.peak_bytes, group.read_memory_bytes())
            if verdicts.peak_bytes > GROUP_BYTES:
                group.kill()
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def send(client: flight.FlightClient, statement: str) -> tuple[str, str]:
    """Return what became of a statement: `rows`, or the status of its error with its text."""
    options = flight.FlightCallOptions(timeout=3 * LATEST_SECONDS)
    try:
        info = client.get_flight_info(rpc.descriptor(sql.CommandStatementQuery(query=statement)), options)
        for endpoint in info.endpoints:
            for _ in client.do_get(endpoint.ticket, options):
                pass
    except flight.FlightUnavailableError as error:
        return ("UNAVAILABLE" if "may be sent again" in str(error) else "lost"), str(error)
    except flight.FlightTimedOutError as error:
        return "DEADLINE_EXCEEDED", str(error)
    except (flight.FlightInternalError, pa.ArrowException, OSError, ValueError, KeyError) as error:
        text = str(error)
        if _EXHAUSTED.search(text):
            return "RESOURCE_EXHAUSTED", text
        is_internal = isinstance(error, flight.FlightInternalError) or "the gateway failed" in text
        return ("INTERNAL" if is_internal else type(error).__name__), text
    return "rows", ""


def sweep(group: Group, statements: Iterable[str], verdicts: Verdicts, ends_at: float = float("inf")) -> None:
    """Send statements by several clients at once, until the clock (monotonic) shows `ends_at`."""
    waiting = iter(statements)
    lock = threading.Lock()

    def work() -> None:
        with flight.FlightClient(group.uri) as client:
            while time.monotonic() < ends_at and group.is_alive():
                with lock:
                    batch = [one for _, one in zip(range(_AT_ONCE), waiting, strict=False)]
                if not batch:
                    return
                for statement in batch:
                    began, paused = time.monotonic(), verdicts.paused
                    outcome, text = send(client, statement)
                    seconds = time.monotonic() - began - (verdicts.paused - paused)
                    with lock:
                        verdicts.note(statement, outcome, text, seconds)
                    if time.monotonic() > ends_at:
                        return

    with ThreadPoolExecutor(_CLIENTS) as pool:
        for one in [pool.submit(work) for _ in range(_CLIENTS)]:
            one.result()


def iterate_statements(kinds: int, calls: int, part: int = 0, parts: int = 1) -> Iterator[str]:
    """Yield the statements of every function, or those of one part of the functions."""
    with Runner("plain") as plain:
        for name in list_names()[part::parts]:
            rng = random.Random(name)
            for case in iterate_calls(plain, name, rng, kinds_of_a_function=kinds, calls_of_kinds=calls):
                yield case.sql


def run(kinds: int, calls: int, seconds: float = float("inf"), part: int = 0, parts: int = 1) -> Verdicts:
    """Sweep; the front process must live all the time.

    Args:
        kinds: combinations of kinds for each function.
        calls: calls for each of them.
        seconds: how long at most.
        part: of the functions, from 0.
        parts: how many there are.
    """
    verdicts = Verdicts()
    with TemporaryDirectory() as directory:
        group = Group(Path(directory))
        try:
            with watch_memory(group, verdicts):
                statements = iterate_statements(kinds, calls, part, parts)
                sweep(group, statements, verdicts, time.monotonic() + seconds)
            assert group.is_alive(), "the front process has ended"
            with flight.FlightClient(group.uri) as client:
                assert send(client, "SELECT 1 + 1") == ("rows", "")
        finally:
            group.server.stop()
    return verdicts


def main() -> int:
    """Run; returns 1 where something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.functions.served", description=__doc__)
    parser.add_argument("--kinds", type=int, default=KINDS_OF_A_FUNCTION, help="kinds for each function")
    parser.add_argument("--calls", type=int, default=CALLS_OF_KINDS, help="calls for each of them")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long at most")
    parser.add_argument("--part", type=int, default=0, help="of the functions, from 0")
    parser.add_argument("--parts", type=int, default=1, help="how many parts there are")
    chosen = parser.parse_args()
    verdicts = run(chosen.kinds, chosen.calls, chosen.seconds, chosen.part, chosen.parts)
    for statement, what in verdicts.surprises:
        sys.stdout.write(f"{statement}\n    {what}\n")
    sys.stdout.write(
        f"{verdicts.counts.total()} statements: {dict(verdicts.counts)}; slowest {verdicts.slowest:.1f} s, "
        f"at most {verdicts.peak_bytes >> 20} MiB; paused for {verdicts.paused:.0f} s\n"
    )
    return 1 if verdicts.surprises else 0


if __name__ == "__main__":
    raise SystemExit(main())
