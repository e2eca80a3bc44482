"""The Spark data source as Spark's workers call it, in this process and without a JVM."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict, Filter, InputPartition
from pyspark.sql.types import StructType

from lance_gateway.gateway.server import GatewayServer
from lance_gateway.pipeline.source import LanceGatewayDataSource
from lance_gateway.pipeline.source.options import Options
from lance_gateway.pipeline.source.reading import PushingReader


def open_source(url: str, **options: str) -> LanceGatewayDataSource:
    return LanceGatewayDataSource(CaseInsensitiveDict({"url": url, **options}))


@dataclass
class Read:
    """A planned read; its partitions are read on demand."""

    reader: PushingReader
    partitions: list[InputPartition]
    handed_back: list[Filter]

    def part(self, number: int) -> list[dict[str, Any]]:
        return list_rows(self.reader.read(self.partitions[number]))

    def rows(self) -> list[dict[str, Any]]:
        return [row for number in range(len(self.partitions)) for row in self.part(number)]


def plan_read(
    url: str, filters: Sequence[Filter] = (), schema: StructType | None = None, **options: str
) -> Read:
    """Plan a read as Spark does: schema, filters, partitions."""
    found = open_source(url, **options)
    reader = PushingReader(Options.of(found.options), schema or found.schema())
    handed_back = list(reader.pushFilters(list(filters))) if filters else []
    return Read(reader, reader.partitions(), handed_back)


def list_rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def get_url(server: GatewayServer) -> str:
    return f"grpc://127.0.0.1:{server.port}"


def list_statements(server: GatewayServer) -> list[str]:
    """Return the statements that the server has executed, oldest first."""
    return [query.sql for query in reversed(server.queries.list_finished())]
