"""Batches pass through shared memory, which is given back whether or not anybody wants them."""

import os
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from lance_gateway.gateway.execution.workers.segments import (
    KeptBytes,
    SegmentReader,
    SegmentWriter,
    Trimmed,
    identify,
)

BATCH = pa.record_batch({"n": pa.array(range(3_000_000), pa.int64())})


def test_a_segment_that_nobody_waits_for_is_let_go_of() -> None:
    writer, reader = SegmentWriter(KeptBytes(16 << 20)), SegmentReader()
    stored, descriptor = writer.write(BATCH, BATCH.schema.serialize().size, lambda: None)
    assert descriptor is not None
    assert reader.read(stored, lambda: descriptor, BATCH.schema).equals(BATCH)

    trimmed = writer.trim()
    assert trimmed == (stored.segment,)
    reader.release(Trimmed(trimmed), lambda: os.open(os.devnull, os.O_RDONLY))

    with pytest.raises(KeyError):
        reader.read(replace(stored, is_new=False), lambda: -1, BATCH.schema)


def test_a_batch_that_nobody_wants_frees_its_segment() -> None:
    writer, reader = SegmentWriter(KeptBytes()), SegmentReader()
    small = BATCH.slice(0, 10_000)
    stored, descriptor = writer.write(small, small.schema.serialize().size, lambda: None)
    assert descriptor is not None
    reader.release(stored, lambda: descriptor)

    again, descriptor = writer.write(small, small.schema.serialize().size, lambda: None)
    assert (again.segment, descriptor) == (stored.segment, None)


def test_whoever_keeps_all_batches_is_given_more_segments_when_it_asks() -> None:
    writer, reader = SegmentWriter(KeptBytes()), SegmentReader()
    small, large = BATCH.slice(0, 1_000_000), BATCH
    waits = []

    def wait() -> None:
        waits.append(len(kept))
        reader.ask_for_more()

    kept: list[pa.RecordBatch] = []
    for batch in [small, large] * 6:
        stored, descriptor = writer.write(batch, batch.schema.serialize().size, wait)
        kept.append(reader.read(stored, lambda found=descriptor: found or -1, batch.schema))
    assert [batch.num_rows for batch in kept] == [1_000_000, 3_000_000] * 6
    assert waits == [3, 6, 9]


def test_a_batch_that_comes_again_from_where_it_was_is_copied_no_more() -> None:
    def send(batch: pa.RecordBatch) -> int:
        stored, descriptor = writer.write(batch, batch.schema.serialize().size, lambda: None)
        sent = reader.read(stored, lambda: descriptor or -1, batch.schema)
        assert sent.equals(batch)
        return stored.segment

    writer, reader = SegmentWriter(KeptBytes()), SegmentReader()
    parts = [pa.record_batch({"n": pa.array(range(first, first + 500_000))}) for first in range(4)]
    # One segment is enough for batches that follow one another, as long as none is known to come again.
    assert len({send(part) for part in parts}) == 1
    segments = [send(part) for part in parts]
    assert len(set(segments)) == len(parts)
    assert writer.trim() == ()
    # Other objects of the same values, where they lie, under any name.
    again = [pa.record_batch({"m": part.column(0)}) for part in parts]
    assert [send(part) for part in again[::-1]] == segments[::-1]

    # Something else takes the place of one of them, which then is copied again.
    taken = send(pa.record_batch({"n": pa.array(range(7, 500_007))}))
    assert taken in segments
    assert sorted({send(part) for part in parts})[:4] == sorted(segments)


def test_batches_are_told_apart_by_where_their_values_lie() -> None:
    column = pa.array(range(1002), pa.int64())
    texts = pa.array([*("a" * 5000), None])
    alike = [pa.record_batch({"n": column.slice(0, 1000)}), pa.record_batch({"m": column.slice(0, 1000)})]
    others = [
        pa.record_batch({"n": column.slice(1, 1000)}),
        pa.record_batch({"n": column.slice(0, 999)}),
        pa.record_batch({"n": pa.array(range(1000), pa.int64())}),
        pa.record_batch({"n": column.slice(0, 1000), "m": column.slice(0, 1000)}),
        pa.record_batch({"n": texts}),
        pa.record_batch({"n": texts.slice(1)}),
    ]
    assert len({identify(batch) for batch in alike}) == 1
    assert len({identify(batch) for batch in (alike[0], *others)}) == 1 + len(others)
    # Neither children of columns, nor what would keep more than itself, nor what is copied quickly.
    assert identify(BATCH.slice(0, 1000)) is None
    assert identify(pa.record_batch({"n": pa.array([[1], [2]] * 1000)})) is None
    assert identify(pa.record_batch({f"c{n}": column.slice(0, 100) for n in range(1000)})) is None
    assert identify(pa.record_batch({"n": texts.dictionary_encode()})) is None


def test_a_batch_of_columns_without_bytes_is_told_apart_from_others() -> None:
    empty = pa.array([""] * 50_000)
    batch = pa.record_batch({"s": empty, "n": pa.array(range(50_000))})
    other = pa.record_batch({"s": empty, "n": pa.array(range(50_000))})
    assert empty.buffers()[2].size == 0
    assert identify(batch) == identify(batch)
    assert len({identify(batch), identify(other)}) == 2


def test_a_worker_waits_for_a_client_that_does_not_ask_for_the_next_batch() -> None:
    writer, reader = SegmentWriter(KeptBytes()), SegmentReader()

    def write(check: Callable[[], None]) -> None:
        stored, descriptor = writer.write(BATCH, BATCH.schema.serialize().size, check)
        kept.append(reader.read(stored, lambda: descriptor or -1, BATCH.schema))

    class WaitsError(Exception):
        pass

    def stop() -> None:
        raise WaitsError

    kept: list[pa.RecordBatch] = []
    write(stop)
    write(stop)
    # What was asked for while the batch was computed is not asked for any more.
    reader.ask_for_more()
    with pytest.raises(WaitsError):
        write(stop)
    kept.clear()
    write(stop)


def test_channels_share_what_they_may_keep() -> None:
    def write(writer: SegmentWriter) -> int:
        stored, descriptor = writer.write(BATCH, BATCH.schema.serialize().size, lambda: None)
        assert descriptor is not None
        os.close(descriptor)
        return stored.segment

    kept = KeptBytes(32 << 20)  # A batch takes 24 MB.
    first, second = SegmentWriter(kept), SegmentWriter(kept)
    write(first)
    segment = write(second)
    assert first.trim() == ()
    assert second.trim() == (segment,)

    first.close()
    write(second)
    assert second.trim() == ()
