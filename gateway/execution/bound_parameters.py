"""The values that clients have bound to prepared statements, in bounded memory."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import pyarrow as pa

from gateway.protocol.expiring_cache import Keeping
from memwal.errors import NotFoundError

# Of one statement: clients that share it bind at the same time.
_MAX_SETS = 8
# What a set costs besides its values.
_SET_BYTES = 1024


@dataclass(eq=False)
class _Statement:
    newest: int = 0
    numbers: list[int] = field(default_factory=list)


class Bindings:
    """What is bound to the statements of a server; safe to share between threads.

    The sets of one statement are numbered from 1, and the newest is current.

    Args:
        max_statements: how many are kept; the one unused longest leaves first.
        idle_seconds: after which a statement is forgotten.
        max_bytes: of all sets together; the oldest leave first, but never the newest of all.
    """

    def __init__(self, max_statements: int, idle_seconds: float, max_bytes: int) -> None:
        self._statements: Keeping[bytes, _Statement] = Keeping(max_statements, idle_seconds)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._sets: OrderedDict[tuple[bytes, int], pa.Table] = OrderedDict()
        self._nbytes = 0

    def __len__(self) -> int:
        """How many statements are kept."""
        return len(self._statements)

    @property
    def nbytes(self) -> int:
        """Bytes of all sets."""
        return self._nbytes

    def open(self, statement: bytes) -> None:
        """Keeps a statement, to which nothing is bound yet."""
        self._statements.put(statement, _Statement())

    def close(self, statement: bytes) -> None:
        """Forgets a statement; closing what is not kept is no mistake."""
        kept = self._statements.pop(statement)
        if kept is not None:
            with self._lock:
                for number in kept.numbers:
                    self._drop((statement, number))

    def add(self, statement: bytes, parameters: pa.Table) -> bool:
        """Makes `parameters` the current set of a statement; False where it is not kept."""
        kept = self._statements.get(statement)
        if kept is None:
            return False
        with self._lock:
            kept.newest += 1
            kept.numbers.append(kept.newest)
            if len(kept.numbers) > _MAX_SETS:
                self._drop((statement, kept.numbers.pop(0)))
            self._sets[statement, kept.newest] = parameters
            self._nbytes += parameters.nbytes + _SET_BYTES
            while self._nbytes > self._max_bytes and len(self._sets) > 1:
                self._drop(next(iter(self._sets)))
        return True

    def current(self, statement: bytes) -> int:
        """Returns the number of the current set; 0 where nothing is bound, or the statement is not kept."""
        kept = self._statements.get(statement)
        return 0 if kept is None else kept.newest

    def get(self, statement: bytes, number: int) -> pa.Table:
        """Returns a set of a statement.

        Raises:
            NotFoundError: the statement is not kept, or this set no longer.
        """
        if self._statements.get(statement) is None:
            raise NotFoundError(
                f"the parameters of prepared statement {statement.hex()} are not known here: it was "
                "closed, was idle too long, or the gateway restarted; bind and execute it again"
            )
        with self._lock:
            found = self._sets.get((statement, number))
        if found is None:
            raise NotFoundError(
                "the parameters of this ticket are gone: others were bound since, to this statement or, with "
                f"more than {self._max_bytes} bytes, to others; bind and execute it again"
            )
        return found

    def _drop(self, key: tuple[bytes, int]) -> None:
        dropped = self._sets.pop(key, None)
        if dropped is not None:
            self._nbytes -= dropped.nbytes + _SET_BYTES
