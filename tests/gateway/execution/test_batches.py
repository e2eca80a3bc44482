"""What is read of a client's stream, and what its statement counts as meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from lance_gateway.gateway.execution.batches import read_batches
from lance_gateway.gateway.execution.query import Query
from lance_gateway.memwal.errors import InvalidInputError
from tests.gateway.execution.test_detached import CALL, create_query


@dataclass(frozen=True)
class _Chunk:
    data: pa.RecordBatch


@dataclass
class _Stream:
    """A stream that notes whether its statement counts as waiting while each batch is read."""

    query: Query
    chunks: Iterator[pa.RecordBatch]
    has_waited: list[bool]

    def read_chunk(self) -> _Chunk:
        self.has_waited.append(self.query.sending_since is not None)
        return _Chunk(next(self.chunks))


def test_a_statement_waits_for_its_client_while_it_reads_alone() -> None:
    query, batch = create_query(), pa.record_batch({"id": [1]})
    stream = _Stream(query, iter([batch, batch]), [])
    for _ in read_batches(stream, CALL, query):
        assert query.sending_since is None
    assert query.sending_since is None
    assert stream.has_waited == [True, True, True]


def test_a_statement_whose_stream_breaks_off_waits_no_longer() -> None:
    def fail() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        raise pa.ArrowInvalid("no batch")

    query = create_query()
    with pytest.raises(InvalidInputError, match="batch 2 of the stream cannot be read: no batch"):
        list(read_batches(_Stream(query, fail(), []), CALL, query))
    assert query.sending_since is None
