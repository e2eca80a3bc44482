"""Lance tables with MemWAL as the tests need them: keys, region layouts, and writes routed to regions."""

import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from benchmarks.tables.wholesale import key_field as key_field  # noqa: PLC0414 - tests know it from here
from tests.support.lake import manifests
from tests.support.processes.writer_process import Acknowledgement, RegionWriter, WriterProcess

Row = dict[str, Any]

_KEY = "lance-schema:unenforced-primary-key"
_NAMESPACE = uuid.UUID("6b1f8ce2-7a43-4a39-9d3f-3f3f6e1f0c55")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the rows of a table spread over regions.

    Attributes:
        initialize: Gives a new dataset its MemWAL index.
        derive: The region values of a row (by the spec's fields, in order); any label when there is no spec.
        encode: The raw bytes that the region manifest records of these values; None records nothing.
    """

    name: str
    initialize: Callable[[lance.LanceDataset], None]
    derive: Callable[[lance.LanceDataset, Row], tuple[Any, ...]]
    encode: Callable[[tuple[Any, ...]], Mapping[str, bytes]] | None = None


def unpartitioned(key: tuple[str, ...], regions: int) -> Layout:
    """Regions without a spec: the writer alone knows which key goes where."""
    return Layout(
        name=f"no spec, {regions} regions",
        initialize=lambda dataset: dataset.initialize_mem_wal(),
        derive=lambda _, row: (zlib.crc32(repr([row[name] for name in key]).encode()) % regions,),
    )


def bucketed(column: str, buckets: int, *, recorded: bool) -> Layout:
    """Lance's own bucket spec over one key column."""
    return Layout(
        name=f"bucket({column}, {buckets})" + ("" if recorded else ", not recorded"),
        initialize=lambda dataset: dataset.initialize_mem_wal(bucket_column=column, num_buckets=buckets),
        derive=_derive_by_lance,
        encode=(lambda values: {"bucket": values[0].to_bytes(4, "little", signed=True)})
        if recorded
        else None,
    )


def by_identity(column: str, *, recorded: bool) -> Layout:
    """Lance's own identity spec over one string or 64-bit integer key column."""
    return Layout(
        name=f"identity({column})" + ("" if recorded else ", not recorded"),
        initialize=lambda dataset: dataset.initialize_mem_wal(identity_column=column),
        derive=lambda _, row: (row[column],),
        encode=(lambda values: {"bucket": encode_raw_value(values[0])}) if recorded else None,
    )


def by_spec(
    fields: tuple[manifests.SpecField, ...],
    derive: Callable[[Row], tuple[Any, ...]],
    *,
    widths: tuple[int, ...],
) -> Layout:
    """Return a recorded spec that Lance cannot evaluate; ``widths`` are the bytes of its integer values."""

    def initialize(dataset: lance.LanceDataset) -> None:
        dataset.initialize_mem_wal()
        manifests.replace_spec(dataset, fields)

    def encode(values: tuple[Any, ...]) -> Mapping[str, bytes]:
        present = zip(fields, values, widths, strict=True)
        return {
            item.field_id: encode_raw_value(value, width)
            for item, value, width in present
            if value is not None
        }

    return Layout(
        name=", ".join(
            f"{item.transform or item.expression}({', '.join(item.source_columns)})" for item in fields
        ),
        initialize=initialize,
        derive=lambda _, row: derive(row),
        encode=encode,
    )


def encode_raw_value(value: object, width: int = 8) -> bytes:
    """Return a region value as manifests store it: little-endian integers, UTF-8 strings."""
    if isinstance(value, str):
        return value.encode()
    assert isinstance(value, int)
    return value.to_bytes(width, "little", signed=True)


def _derive_by_lance(dataset: lance.LanceDataset, row: Row) -> tuple[Any, ...]:
    (spec,) = dataset.mem_wal_index_details()["sharding_specs"]
    names = {column.id(): column.name() for column in dataset.lance_schema.fields()}
    sources = [names[source] for item in spec["fields"] for source in item["source_ids"]]
    batch = pa.RecordBatch.from_pylist(
        [row], schema=pa.schema([dataset.schema.field(name) for name in sources])
    )
    values = lance.evaluate_sharding_spec(batch, spec, dataset.lance_schema)
    return tuple(column[0].as_py() for column in values.columns)


@dataclass
class LsmTable:
    """A Lance table under a catalog root, with the region writers that the test holds open.

    Attributes:
        config: Settings of every writer that is opened, such as ``max_memtable_rows``.
        is_shared: Whether others create regions too: those that are there are looked up.
        writers: The open writer of each region id.
        regions: The region id of each tuple of region values.
    """

    path: Path
    key: tuple[str, ...]
    layout: Layout
    process: WriterProcess
    config: dict[str, Any] = field(default_factory=dict)
    is_shared: bool = False
    writers: dict[str, RegionWriter] = field(default_factory=dict)
    regions: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _routes: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _routing: lance.LanceDataset | None = None  # the specs never change

    @staticmethod
    def create(
        root: Path,
        name: str,
        rows: pa.Table,
        layout: Layout,
        process: WriterProcess,
        *,
        stable_row_ids: bool = False,
        **config: Any,
    ) -> "LsmTable":
        """Write ``rows`` as the base table ``<root>/<name>.lance`` and initialise its MemWAL."""
        path = root / f"{name}.lance"
        dataset = lance.write_dataset(rows, path, enable_stable_row_ids=stable_row_ids)
        layout.initialize(dataset)
        return LsmTable(path, primary_key(rows.schema), layout, process, dict(config))

    @property
    def name(self) -> str:
        return self.path.stem

    def dataset(self) -> lance.LanceDataset:
        """Return the newest base version."""
        return lance.dataset(self.path)

    def put(self, rows: Iterable[Row]) -> list[tuple[str, list[Row], Acknowledgement]]:
        """Upsert rows, each in its region; return what each region acknowledged."""
        parts = self._group_by_region(rows)
        return [(region, part, self.writer(region).put(part)) for region, part in parts.items()]

    def delete(self, keys: Iterable[Row]) -> list[tuple[str, list[Row], Acknowledgement]]:
        """Delete keys, each in its region; return what each region acknowledged."""
        parts = self._group_by_region({name: key[name] for name in self.key} for key in keys)
        return [(region, part, self.writer(region).delete(part)) for region, part in parts.items()]

    def writer(self, region: str) -> RegionWriter:
        """Return the open writer of a region; opened when there is none."""
        writer = self.writers.get(region)
        if writer is None or writer.closed:
            writer = self.process.open(self.path, region, **self.config)
            self.writers[region] = writer
        return writer

    def close_writers(self) -> None:
        """Flush and close every open writer."""
        for writer in self.writers.values():
            if not writer.closed:
                writer.close()
        self.writers.clear()

    def region_of(self, key: Row) -> str:
        """Return the region of a key, created on first use."""
        identity = tuple(key[name] for name in self.key)
        if identity not in self._routes:
            if self._routing is None:
                self._routing = self.dataset()
            values = self.layout.derive(self._routing, key)
            if values not in self.regions:
                self.regions[values] = self._find_region(values) or self._create_region(values)
            self._routes[identity] = self.regions[values]
        return self._routes[identity]

    def _create_region(self, values: tuple[Any, ...]) -> str:
        region = str(uuid.uuid5(_NAMESPACE, f"{self.name}{values!r}"))
        if self.layout.encode is not None:
            manifests.record_region(self.path, region, 1, self.layout.encode(values))
        return region

    def _find_region(self, values: tuple[Any, ...]) -> str | None:
        """Return the region that another writer created for these values, or the only one."""
        if not self.is_shared:
            return None
        wanted = {} if self.layout.encode is None else dict(self.layout.encode(values))
        for region in manifests.list_region_ids(self.path):
            recorded = manifests.read_manifest(self.path, region).region_field_entries
            if {entry.field_id: entry.value for entry in recorded} == wanted:
                return region
        return None

    def generation_directory(self, region: str, generation: int) -> Path:
        """Return the directory of a flushed generation, by the region's manifest."""
        manifest = manifests.read_manifest(self.path, region)
        (path,) = [entry.path for entry in manifest.flushed_generations if entry.generation == generation]
        return self.path / "_mem_wal" / region / path

    def _group_by_region(self, rows: Iterable[Row]) -> dict[str, list[Row]]:
        parts: dict[str, list[Row]] = {}
        for row in rows:
            parts.setdefault(self.region_of(row), []).append(row)
        return parts


def primary_key(schema: pa.Schema) -> tuple[str, ...]:
    """Return the key columns of a schema, in key order."""
    marked = [
        (int(column.metadata.get(f"{_KEY}:position".encode(), b"0")), column.name)
        for column in schema
        if column.metadata and _KEY.encode() in column.metadata
    ]
    return tuple(name for _, name in sorted(marked, key=lambda item: item[0]))
