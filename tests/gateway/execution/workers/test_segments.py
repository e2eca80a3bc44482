"""Batches pass through shared memory, which is given back whether or not anybody wants them."""

import os
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


def test_whoever_keeps_all_batches_keeps_no_worker_waiting() -> None:
    def fail() -> None:
        raise AssertionError("the worker waits for a segment")

    writer, reader = SegmentWriter(KeptBytes()), SegmentReader()
    small = BATCH.slice(0, 10_000)
    kept = []
    for _ in range(100):
        stored, descriptor = writer.write(small, small.schema.serialize().size, fail)
        kept.append(reader.read(stored, lambda found=descriptor: found or -1, small.schema))
    assert all(batch.equals(small) for batch in kept)


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
