"""Tables with keys of several kinds, indexed as upkeep does by default, and looked up by key alone."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.tables.table import create_regions
from benchmarks.tables.wholesale import key_field
from lance_gateway.pipeline.indexing import maintain
from lance_gateway.pipeline.jobs.lake import LakeTable

Numbers = npt.NDArray[np.int64]

NAME: Final = "keyed"
TENANTS: Final = 20
_SLICE: Final = 500_000
_REGIONS: Final = 4
_FRESH_SHARE: Final = 50
_COMPLETE: Final = "complete"


def _spell(numbers: Numbers) -> pa.Array:
    """Return a text of 30 characters for each number, in another order than the numbers."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return pa.array(
        [f"{high:016x}-{low:013d}" for high, low in zip(mixed.tolist(), numbers.tolist(), strict=True)]
    )


def _assign(numbers: Numbers) -> pa.Array:
    return pa.array([f"tenant-{number:02d}" for number in (numbers % TENANTS).tolist()])


KINDS: Final[Mapping[str, Mapping[str, Callable[[Numbers], pa.Array]]]] = {
    "integer key": {"id": pa.array},
    "text key of 30 characters": {"id": _spell},
    "key of tenant and integer": {"tenant": _assign, "id": pa.array},
}
"""Kind of key -> its columns, each with the values that it has for numbers of rows."""


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A finished table with rows 0, 1, ..

    Attributes:
        root: catalog root.
        kind: of `KINDS`.
        rows: how many.
        fresh: numbers of those that have a newer version in a generation.
    """

    root: Path
    kind: str
    rows: int
    fresh: Numbers

    @property
    def uri(self) -> str:
        """Path of the Lance dataset."""
        return str(self.root / f"{NAME}.lance")

    def format_condition(self, number: int) -> str:
        """Return the condition that the key is that of a row."""
        values = {name: make(np.array([number]))[0].as_py() for name, make in KINDS[self.kind].items()}
        return " AND ".join(f"{name} = {value!r}" for name, value in values.items())

    def is_fresh(self, number: int) -> bool:
        """Return whether a row has a newer version in a generation."""
        at = int(np.searchsorted(self.fresh, number))
        return at < len(self.fresh) and int(self.fresh[at]) == number

    def draw_numbers(self, count: int, *, seed: int) -> list[int]:
        """Return rows at random, alternately one of all rows and one that is fresh."""
        rng = np.random.default_rng(seed)
        numbers = rng.integers(0, self.rows, count)
        numbers[1::2] = rng.choice(self.fresh, len(numbers[1::2]))
        return [int(number) for number in numbers]


def ensure_key_table(data_dir: Path, kind: str, rows: int) -> KeyTable:
    """Open a table, building it first when it is not there or was left half-built."""
    root = data_dir / f"keys-v1-rows{rows}-{'-'.join(kind.split())}"
    fresh = np.unique(np.random.default_rng(1).integers(0, rows, max(_REGIONS, rows // _FRESH_SHARE)))
    table = KeyTable(root, kind, rows, fresh)
    if not (root / _COMPLETE).exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        print(f"building {root}", flush=True)
        _build(table)
        (root / _COMPLETE).touch()
    return table


def _build(table: KeyTable) -> None:
    columns = KINDS[table.kind]
    some = {name: make(np.arange(1)).type for name, make in columns.items()}
    keys = [key_field(name, kind, at) for at, (name, kind) in enumerate(some.items(), start=1)]
    schema = pa.schema([*keys, ("number", pa.int64()), ("turn", pa.int32()), ("price", pa.float64())])
    rng = np.random.default_rng(0)

    def make_rows(numbers: Numbers, turn: int) -> pa.Table:
        values = [make(numbers) for make in columns.values()]
        count = len(numbers)
        more = [pa.array(numbers), pa.array(np.full(count, turn, np.int32)), pa.array(rng.random(count))]
        return pa.table([*values, *more], schema=schema)

    def make_base() -> Iterator[pa.RecordBatch]:
        order = rng.permutation(table.rows)
        for start in range(0, table.rows, _SLICE):
            yield from make_rows(order[start : start + _SLICE], 0).to_batches()

    lance.write_dataset(make_base(), table.uri, schema=schema, max_rows_per_file=1_000_000)
    maintain(LakeTable.at(table.uri))
    dataset = lance.dataset(table.uri)
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=_REGIONS)
    dataset = lance.dataset(table.uri)
    spec = dataset.mem_wal_index_details()["sharding_specs"][0]
    ids = pa.record_batch([columns["id"](table.fresh)], names=["id"])
    buckets = lance.evaluate_sharding_spec(ids, spec, dataset.lance_schema).column(0)
    buckets = buckets.to_numpy(zero_copy_only=False)
    for region, region_id in enumerate(create_regions(table.uri, dataset.version, _REGIONS)):
        for turn, part in enumerate(np.array_split(table.fresh[buckets == region], 2), start=1):
            # Closing the writer flushes its MemTable: each part becomes one generation.
            with dataset.mem_wal_writer(region_id, max_memtable_rows=table.rows) as writer:
                if len(part):
                    writer.put(make_rows(part, turn))
