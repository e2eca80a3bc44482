"""One shared file: a header, and one record batch as an Arrow IPC stream.

The header has the name that the file was written under, the length and a hash. A file that was cut short,
changed or renamed is thus found out before anything of it is used.
"""

from __future__ import annotations

import mmap
import os
import struct

import mmh3
import pyarrow as pa

_MAGIC = b"LGSHARE2"
NAME_BYTES = 24
# Magic, name, length of the stream, its hash; the stream begins at a multiple of 64 bytes.
_HEADER = struct.Struct(f"<8s{NAME_BYTES}sQ16s8x")
_POPULATE = getattr(mmap, "MAP_POPULATE", 0)


def encode(name: bytes, batch: pa.RecordBatch) -> tuple[bytes, pa.Buffer]:
    """Return the header and the stream of a file.

    Args:
        name: of the file, `NAME_BYTES` long.
        batch: its content.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream = sink.getvalue()
    return _HEADER.pack(_MAGIC, name, stream.size, _hash(stream)), stream


def map_file(descriptor: int, name: bytes) -> pa.RecordBatch | None:
    """Map the content of an open file, without a copy; return None if it is not what was written.

    The file may be unlinked while the batch is in use. It must not be shortened.
    """
    size = os.fstat(descriptor).st_size
    if size <= _HEADER.size:
        return None
    try:
        mapped = pa.py_buffer(
            mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | _POPULATE, prot=mmap.PROT_READ)
        )
        magic, written_name, length, written_hash = _HEADER.unpack(mapped[: _HEADER.size])
        if (magic, written_name, length) != (_MAGIC, name, size - _HEADER.size):
            return None
        stream = mapped.slice(_HEADER.size)
        if _hash(stream) != written_hash:
            return None
        with pa.ipc.open_stream(stream) as reader:
            return reader.read_next_batch()
    except (OSError, ValueError, StopIteration, pa.ArrowException):
        return None


def _hash(stream: pa.Buffer) -> bytes:
    """Return the 128-bit MurmurHash3, in half of the time of a CRC."""
    return bytes(mmh3.mmh3_x64_128_digest(stream))
