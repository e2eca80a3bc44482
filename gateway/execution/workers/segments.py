"""Results in shared memory: a worker copies each batch there once, and the front process sends it from there.

Each channel has a few segments (anonymous files in memory). The first byte of a segment says whether the
front process still uses it; the worker waits while all of them are in use, so a slow client holds back its
statement, and the memory of a result is bounded. Whoever collects batches uses all of them and waits for
another one: the second byte says so, and the worker makes more.

Batches of tables that are kept in memory are the same ones in each result: a segment that has one is sent
again as it is. Whether a batch is kept shows when it comes again, from where it was.
"""

import mmap
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from cachetools import LRUCache
from pyarrow.types import is_dictionary, is_nested

INLINE_BYTES = 32 << 10
"""Smaller batches are part of their message."""
_HEADER_BYTES = 64
_GRAIN = 1 << 20
_MAX_BYTES = 48 << 20
"""Of all segments of a channel, each time that the front process asks for more; a larger batch has one for
itself."""
KEPT_BYTES = 96 << 20
"""Of the segments that the channels of a worker keep between statements, all of them together: the system
clears the pages of new ones, which takes longer than to copy a batch into them."""
_MAX_SEEN = 1024
"""Batches that may come again."""
_LARGEST_SOURCE = 2
"""A batch may hold so many times its size, of which it is a part."""
_LEAST_COLUMN = 4 << 10
"""Batches whose columns have fewer bytes on average are copied without being identified."""
_WAIT_SECONDS = 0.0005
# Passed along, since pyarrow reads the environment wherever it has to make them.
_OPTIONS = pa.ipc.IpcWriteOptions()
_STATE, _REQUEST = 0, 1  # Offsets in the header.
_FREE, _IN_USE = 0, 1
_NONE, _MORE = 0, 1

Identity: TypeAlias = tuple[tuple[int | None, ...], ...]
"""Length, offset and addresses of each column: those of two batches that exist at the same time are equal if
both are the same values."""


@dataclass(slots=True, eq=False)
class _Segment:
    number: int
    memory: mmap.mmap
    length: int = 0
    identity: Identity | None = None
    """Of the batch in it, if that came before."""
    source: pa.RecordBatch | None = None
    """That batch: as long as it is held, nothing else has its addresses."""

    @property
    def is_free(self) -> bool:
        return self.memory[_STATE] == _FREE

    def take_request(self) -> bool:
        """Return whether more segments were asked for since the last time."""
        was_asked = self.memory[_REQUEST] == _MORE
        self.memory[_REQUEST] = _NONE
        return was_asked


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Where a batch lies.

    Attributes:
        segment: number of the segment.
        length: bytes behind its header.
        is_new: whether the segment's file descriptor comes with the message.
        dropped: numbers of segments that are not used any more.
    """

    segment: int
    length: int
    is_new: bool
    dropped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Numbers of segments that are not used any more."""

    segments: tuple[int, ...]


class KeptBytes:
    """What the channels of a worker may keep between statements, together. Thread-safe.

    Args:
        limit: in bytes.
    """

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._lock = threading.Lock()
        self._left = limit

    def exchange(self, held: int, wanted: int) -> int:
        """Give back what a channel held, and return how much of what it wants it may keep."""
        with self._lock:
            self._left += held
            granted = min(wanted, self._left)
            self._left -= granted
        return granted


class SegmentWriter:
    """The segments of a channel, as its worker sees them; for one thread at a time.

    Args:
        kept: bounds what it keeps between statements.
    """

    def __init__(self, kept: KeptBytes) -> None:
        self._kept = kept
        self._held = 0
        self._limit = _MAX_BYTES
        self._segments: list[_Segment] = []
        self._dropped: list[int] = []
        self._next = 0
        self._seen: LRUCache[Identity, None] = LRUCache(_MAX_SEEN)

    def write(
        self, batch: pa.RecordBatch, schema_bytes: int, check: Callable[[], None]
    ) -> tuple[StoredBatch, int | None]:
        """Copy a batch into a free segment, unless one has it.

        Args:
            batch: to be written.
            schema_bytes: size of its schema as a message.
            check: raises if the statement was stopped; called while all segments are in use.

        Returns:
            Where it is, and the file descriptor of a new segment, which the caller sends and closes.
        """
        identity = identify(batch)
        segment, descriptor = self._find_copy(identity), None
        if segment is None:
            came_before = identity is not None and identity in self._seen
            size = pa.ipc.get_record_batch_size(batch) + schema_bytes + 1024
            segment, descriptor = self._find(size, check, keeps_others=came_before)
            segment.identity = segment.source = None
            view = memoryview(segment.memory)[_HEADER_BYTES:]
            sink = pa.FixedSizeBufferWriter(pa.py_buffer(view))
            with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
                writer.write_batch(batch)
            segment.length = sink.tell()
            if came_before:
                segment.identity, segment.source = identity, batch
            elif identity is not None:
                self._seen[identity] = None
        segment.memory[_STATE] = _IN_USE
        stored = StoredBatch(segment.number, segment.length, descriptor is not None, tuple(self._dropped))
        self._dropped.clear()
        return stored, descriptor

    def trim(self) -> tuple[int, ...]:
        """Let go of what may not be kept for the next statement; return the numbers of segments."""
        self._limit = _MAX_BYTES
        sizes = sum(len(one.memory) for one in self._segments)
        granted = self._kept.exchange(self._held, sizes)
        while sizes > granted:
            first = self._segments[0]
            sizes -= len(first.memory)
            self._drop(first)
        self._held = self._kept.exchange(granted, sizes)
        dropped = tuple(self._dropped)
        self._dropped.clear()
        return dropped

    def close(self) -> None:
        """Let go of all segments; the front process has closed the channel."""
        self._segments.clear()
        self._held = self._kept.exchange(self._held, 0)

    def _find_copy(self, identity: Identity | None) -> _Segment | None:
        """Return a segment with a batch, which is now the last one that others take the place of."""
        for segment in self._segments if identity is not None else ():
            if segment.identity == identity and segment.is_free:
                self._segments.remove(segment)
                self._segments.append(segment)
                return segment
        return None

    def _find(
        self, size: int, check: Callable[[], None], *, keeps_others: bool
    ) -> tuple[_Segment, int | None]:
        self._take_requests()  # An earlier one was for the batch that is about to be sent.
        while True:
            free = [one for one in self._segments if one.is_free]
            fitting = [one for one in free if len(one.memory) >= size + _HEADER_BYTES]
            taken = sum(len(one.memory) for one in self._segments)
            has_room = not self._segments or taken + size <= self._limit
            if keeps_others and has_room:
                fitting = [one for one in fitting if one.identity is None]
            if fitting:
                oldest, *_ = fitting
                return oldest if keeps_others else min(fitting, key=lambda one: len(one.memory)), None
            if has_room:
                return self._create(size)
            for segment in free:  # Too small for this result.
                self._drop(segment)
            if free:
                continue
            check()
            if self._take_requests():
                self._limit += max(_MAX_BYTES, size)
                continue
            time.sleep(_WAIT_SECONDS)

    def _take_requests(self) -> bool:
        return sum(one.take_request() for one in self._segments) > 0

    def _create(self, size: int) -> tuple[_Segment, int]:
        capacity = -(-(size + _HEADER_BYTES) // _GRAIN) * _GRAIN
        descriptor = os.memfd_create("lance-gateway-result", os.MFD_CLOEXEC)
        os.truncate(descriptor, capacity)
        segment = _Segment(self._next, mmap.mmap(descriptor, capacity))
        self._next += 1
        self._segments.append(segment)
        return segment, descriptor

    def _drop(self, segment: _Segment) -> None:
        self._segments.remove(segment)
        self._dropped.append(segment.number)


def identify(batch: pa.RecordBatch) -> Identity | None:
    """Return what tells a batch from all others that exist; None where that can't be told, or takes memory.

    Its addresses alone don't tell where columns have children, which have lengths and offsets of their own.
    """
    if batch.nbytes < _LEAST_COLUMN * batch.num_columns:
        return None  # To copy it is quicker.
    columns = batch.columns
    if any(
        is_nested(one.type) or is_dictionary(one.type) or isinstance(one, pa.ExtensionArray)
        for one in columns
    ):
        return None
    if batch.get_total_buffer_size() > _LARGEST_SOURCE * batch.nbytes:
        return None
    return tuple(
        (
            one.type.id,
            len(one),
            one.offset,
            *(None if part is None else part.address for part in one.buffers()),
        )
        for one in columns
    )


class SegmentReader:
    """The segments of a channel, as the front process sees them."""

    def __init__(self) -> None:
        self._memory: dict[int, mmap.mmap] = {}

    def forget(self, segments: Iterable[int]) -> None:
        """Let go of segments that the worker does not use any more, when their batches are sent."""
        for number in segments:
            self._memory.pop(number, None)

    def release(self, message: object, take_descriptor: Callable[[], int]) -> None:
        """Let go of what a message that nobody wants is about."""
        match message:
            case StoredBatch():
                _release(self._find(message, take_descriptor))
            case Trimmed(segments):
                self.forget(segments)

    def ask_for_more(self) -> None:
        """Have the worker make more segments if it waits for one: all batches that it sent were taken."""
        for memory in self._memory.values():
            memory[_REQUEST] = _MORE

    def read(
        self, stored: StoredBatch, take_descriptor: Callable[[], int], schema: pa.Schema
    ) -> pa.RecordBatch:
        """Return a batch, which is not copied; its segment is free again when nobody refers to it.

        Args:
            stored: where it is.
            take_descriptor: returns the file descriptor that came with the message.
            schema: of the batch.
        """
        memory = self._find(stored, take_descriptor)
        view = memoryview(memory)[_HEADER_BYTES : _HEADER_BYTES + stored.length]
        weakref.finalize(view, _release, memory).atexit = False
        source = pa.BufferReader(pa.py_buffer(view))
        pa.ipc.read_message(source)  # the schema, which is known
        return pa.ipc.read_record_batch(pa.ipc.read_message(source), schema)

    def _find(self, stored: StoredBatch, take_descriptor: Callable[[], int]) -> mmap.mmap:
        self.forget(stored.dropped)
        if stored.is_new:
            descriptor = take_descriptor()
            try:
                self._memory[stored.segment] = mmap.mmap(descriptor, 0)
            finally:
                os.close(descriptor)
        return self._memory[stored.segment]


def _release(memory: mmap.mmap) -> None:
    memory[_STATE] = _FREE
