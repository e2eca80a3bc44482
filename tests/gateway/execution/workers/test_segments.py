"""Batches pass through shared memory, which is given back whether or not anybody wants them."""

import os
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from gateway.execution.workers.segments import KeptBytes, SegmentReader, SegmentWriter, Trimmed

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
