"""Columns that number their rows: GENERATED .. AS IDENTITY.

Numbers are given out in blocks. A block is a file of the table, written only if nobody has written it yet:

    _gateway/identity/{field id}/{number of the block}    {"next": the first number behind the block}

So all processes that write to a table, of any root, give different numbers. What a process doesn't use of its
block is lost when it ends: there are gaps, and numbers of different processes do not come in order of time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError, UnavailableError
from lance_gateway.memwal.rules.defaults import Change
from lance_gateway.memwal.storage.files import Storage, find_last_in_sequence

IDENTITY: Final = b"lance-gateway:identity"
"""In a column's metadata: JSON with `always`, `start` and `increment`."""
_DIRECTORY: Final = "_gateway/identity"
_FEWEST: Final = 1_000
"""Numbers of a process's first block; each following one is twice as large, up to the most."""
_MOST: Final = 1 << 16
_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class Identity:
    """How a column numbers its rows.

    Attributes:
        always: whether rows may not bring numbers of their own.
        start: the first number.
        increment: from one number to the next; positive.
    """

    always: bool
    start: int = 1
    increment: int = 1

    def encode(self) -> bytes:
        """Return the value in the metadata of the column."""
        fields = {"always": self.always, "start": self.start, "increment": self.increment}
        return json.dumps(fields).encode()

    @property
    def definition(self) -> str:
        """The clause in SQL."""
        options = (
            ""
            if (self.start, self.increment) == (1, 1)
            else (f" (START WITH {self.start} INCREMENT BY {self.increment})")
        )
        return f"GENERATED {'ALWAYS' if self.always else 'BY DEFAULT'} AS IDENTITY{options}"


def list_identities(schema: pa.Schema) -> dict[str, Identity]:
    """Return column -> identity of a stored schema, for columns that have one.

    Raises:
        CorruptDataError: one can't be read.
    """
    found = {}
    for field in schema:
        encoded = (field.metadata or {}).get(IDENTITY)
        if encoded is None:
            continue
        try:
            fields = json.loads(encoded)
            found[field.name] = Identity(
                bool(fields["always"]), int(fields["start"]), int(fields["increment"])
            )
        except (ValueError, KeyError, TypeError) as error:
            msg = f"column {field.name!r}: {IDENTITY.decode()} can't be read ({error}): it is {encoded!r}"
            raise CorruptDataError(msg) from error
    return found


class IdentityNumbers:
    """The numbers that a process gives to rows of one column; safe to share between threads.

    Args:
        table: directory of the table.
        field_id: of the column.
        identity: how it numbers rows.
    """

    def __init__(self, table: Storage, field_id: int, identity: Identity) -> None:
        self._table = table
        self._directory = f"{_DIRECTORY}/{field_id}"
        self._identity = identity
        self._lock = threading.Lock()
        self._next = self._end = 0
        self._size = _FEWEST
        self._last: int | None = None

    def take(self, count: int, find_largest: Callable[[], int | None]) -> np.ndarray:
        """Return numbers that nobody else gets, ascending, as int64.

        Args:
            count: how many.
            find_largest: returns the largest number in the table; called for the first block of a table.

        Raises:
            UnavailableError: storage failed, or others were first, time after time.
            InvalidInputError: there are no more numbers.
        """
        with self._lock:
            pieces: list[np.ndarray] = []
            step = self._identity.increment
            while count:
                if self._next >= self._end:
                    self._claim(count, find_largest, None)
                stop = min(self._end, self._next + count * step)
                pieces.append(np.arange(self._next, stop, step, dtype=np.int64))
                self._next = stop
                count -= len(pieces[-1])
        return np.concatenate([np.empty(0, dtype=np.int64), *pieces])

    def skip(self, largest: int, find_largest: Callable[[], int | None]) -> None:
        """See to it that numbers that are given from now on are larger than one that a row brought.

        Others may have taken blocks with it, or beyond it, before.

        Raises:
            UnavailableError: as `take`.
        """
        with self._lock:
            if self._next <= largest < self._end:
                self._next = self._step_over(largest)
            elif largest >= self._end:
                self._claim(0, find_largest, largest)

    def _step_over(self, number: int) -> int:
        start, step = self._identity.start, self._identity.increment
        return max(start, start + ((number - start) // step + 1) * step)

    def _claim(self, count: int, find_largest: Callable[[], int | None], over: int | None) -> None:
        """Take the next block; with `over`, only if that is not behind a number already."""
        for _ in range(_ATTEMPTS):
            if self._last is None:
                numbers = [entry.name for entry in self._table.list(self._directory)]
                self._last = max((int(name) for name in numbers if name.isdigit()), default=0)
            self._last = find_last_in_sequence(self._table, self._path, self._last)
            begin = self._read_next(find_largest)
            if over is not None:
                if begin > over:
                    return
                begin = self._step_over(over)
            end = begin + max(count, self._size) * self._identity.increment
            if end >= 1 << 63:
                msg = f"{self._table.uri}: an identity column has given its last number, {begin}"
                raise InvalidInputError(msg)
            if self._table.put_if_absent(self._path(self._last + 1), json.dumps({"next": end}).encode()):
                self._last += 1
                self._next, self._end = begin, end
                self._size = min(2 * self._size, _MOST)
                return
        msg = f"{self._table.uri}: other processes took numbers first, {_ATTEMPTS} times: retry"
        raise UnavailableError(msg)

    def _read_next(self, find_largest: Callable[[], int | None]) -> int:
        assert self._last is not None  # noqa: S101 - it was looked for
        if not self._last:
            largest = find_largest()
            return self._identity.start if largest is None else self._step_over(largest)
        data = self._table.read(self._path(self._last))
        try:
            return int(json.loads(data)["next"])
        except (ValueError, KeyError, TypeError) as error:
            msg = f"{self._table.locate(self._path(self._last))} is not a block of numbers ({error})"
            raise CorruptDataError(msg) from error

    def _path(self, number: int) -> str:
        return f"{self._directory}/{number:012d}"


@dataclass(frozen=True, eq=False)
class IdentityDefault:
    """The default of a column that numbers its rows.

    Attributes:
        name: of the column, for messages.
        kind: type of the column.
        numbers: where they come from.
        find_largest: returns the largest number in the table.
    """

    name: str
    kind: pa.DataType
    numbers: IdentityNumbers
    find_largest: Callable[[], int | None]
    change: Change = Change.BY_ROW

    def evaluate(self, rows: int) -> pa.Array:
        """Take numbers.

        Raises:
            InvalidInputError: the type of the column has no more numbers.
            UnavailableError: storage failed.
        """
        try:
            return pa.array(self.numbers.take(rows, self.find_largest)).cast(self.kind)
        except pa.ArrowInvalid as error:
            msg = f"column {self.name!r}: numbers of its identity don't fit {self.kind} any more: {error}"
            raise InvalidInputError(msg) from error

    def note_given(self, values: pa.ChunkedArray) -> None:
        """Note numbers that rows brought, so that later ones are others.

        Raises:
            UnavailableError: storage failed.
        """
        largest = pc.max(values).as_py()
        if largest is not None:
            self.numbers.skip(largest, self.find_largest)
