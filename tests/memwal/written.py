"""Tables written by pylance, for the tests of the format."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lance
import pyarrow as pa

from lance_gateway.memwal.regions.manifest import RegionManifest, read_latest_manifest
from lance_gateway.memwal.storage.files import Storage

PRIMARY_KEY = "lance-schema:unenforced-primary-key"


def keyed_schema(*keys: pa.Field, values: Sequence[pa.Field] = (pa.field("qty", pa.int32()),)) -> pa.Schema:
    """A schema whose first fields are the primary key, in this order."""
    marked = [
        key.with_nullable(False).with_metadata({PRIMARY_KEY: "true", f"{PRIMARY_KEY}:position": str(at)})
        for at, key in enumerate(keys, start=1)
    ]
    return pa.schema([*marked, *values])


@dataclass(frozen=True)
class WrittenTable:
    """A table, as pylance and as our storage see it."""

    uri: str
    schema: pa.Schema
    options: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def create(
        uri: str, schema: pa.Schema, options: Mapping[str, str] | None = None, **mem_wal: Any
    ) -> "WrittenTable":
        """An empty table with MemWAL."""
        options = dict(options or {})
        dataset = lance.write_dataset(schema.empty_table(), uri, schema=schema, storage_options=options)
        dataset.initialize_mem_wal(**mem_wal)
        return WrittenTable(uri, schema, options)

    @property
    def dataset(self) -> lance.LanceDataset:
        """The newest base version."""
        return lance.dataset(self.uri, storage_options=dict(self.options))

    @property
    def storage(self) -> Storage:
        return Storage.open(self.uri, self.options)

    def rows(self, **columns: Sequence[object]) -> pa.Table:
        return pa.table(columns, schema=self.schema)

    def write(self, *batches: pa.Table, region: str | None = None, **options: Any) -> str:
        """Writes batches through one writer, which flushes the rest when it closes; returns the region."""
        region = region or str(uuid.uuid4())
        with self.dataset.mem_wal_writer(region, **options) as writer:
            for batch in batches:
                writer.put(batch)
        return region

    def manifest(self, region: str) -> RegionManifest:
        manifest = read_latest_manifest(self.storage, region)
        assert manifest is not None
        return manifest
