"""Tables with keys of several types, over which finding superseded rows is measured."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.reports.queries import TABLE_NAME
from benchmarks.tables.table import create_regions

_LAYOUT = 1
_MARKER = "complete"
_SLICE = 500_000
_TEXT_LENGTH = 30
_PARTS = 7

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SupersededTable:
    """A table whose fresh rows all supersede one of the base table.

    Attributes:
        root: catalog root.
        rows: of the base table, each with another key.
        key: names of the key columns.
    """

    root: Path
    rows: int
    key: tuple[str, ...]

    @property
    def uri(self) -> str:
        """Path of the Lance dataset."""
        return str(self.root / f"{TABLE_NAME}.lance")

    def read_fresh_keys(self) -> pa.Table:
        """Return the keys of all generations; they may repeat."""
        generations = sorted(Path(self.uri).glob("_mem_wal/*/*_gen_*"))
        return pa.concat_tables([lance.dataset(one).to_table(columns=list(self.key)) for one in generations])


def _make_texts(ids: Ids) -> pa.Array:
    """Return texts of 30 characters."""
    characters = np.full((len(ids), _TEXT_LENGTH), ord("0"), dtype=np.uint8)
    characters[:, :9] = np.frombuffer(b"customer-", np.uint8)
    left = ids.copy()
    for column in range(_TEXT_LENGTH - 1, 8, -1):
        characters[:, column] += (left % 10).astype(np.uint8)
        left //= 10
    offsets = np.arange(len(ids) + 1, dtype=np.int32) * _TEXT_LENGTH
    return pa.Array.from_buffers(
        pa.string(), len(ids), [None, pa.py_buffer(offsets), pa.py_buffer(characters.tobytes())]
    )


def _make_integers(ids: Ids) -> dict[str, pa.Array]:
    return {"id": pa.array(ids)}


def _make_shuffled(ids: Ids) -> dict[str, pa.Array]:
    return {"id": pa.array(ids * 2_654_435_761 % (1 << 40))}


def _make_pairs(ids: Ids) -> dict[str, pa.Array]:
    places = pa.array([f"place {number}" for number in range(_PARTS)]).take(pa.array(ids % _PARTS))
    return {"id": pa.array(ids // _PARTS), "place": places}


KEYS = MappingProxyType(
    {
        "text": lambda ids: {"id": _make_texts(ids)},
        "integer": _make_integers,
        "shuffled integer": _make_shuffled,
        "composite": _make_pairs,
    }
)
"""Makes the key columns of rows by number, of each kind of key."""


def ensure_superseded_table(
    data_dir: Path, kind: str, rows: int, fresh: int, generations: int
) -> SupersededTable:
    """Open the table of this shape, building it first when it is not there or was left half-built."""
    home = (
        data_dir / f"superseded-v{_LAYOUT}-{kind.replace(' ', '-')}-rows{rows}-fresh{fresh}-gen{generations}"
    )
    table = SupersededTable(home / "root", rows, tuple(KEYS[kind](np.arange(1))))
    if not (home / _MARKER).exists():
        shutil.rmtree(home, ignore_errors=True)
        table.root.mkdir(parents=True)
        print(f"building {home}", flush=True)
        _write(table, kind, fresh, generations)
        (home / _MARKER).touch()
    return table


def _write(table: SupersededTable, kind: str, fresh: int, generations: int) -> None:
    schema = _build_schema(KEYS[kind](np.arange(1)))

    def make(ids: Ids) -> pa.Table:
        return pa.table({**KEYS[kind](ids), "price": ids / 7}, schema=schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, table.rows, _SLICE):
            yield from make(np.arange(start, min(start + _SLICE, table.rows))).to_batches()

    lance.write_dataset(batches(), table.uri, schema=schema)
    lance.dataset(table.uri).initialize_mem_wal(bucket_column="id", num_buckets=1)
    dataset = lance.dataset(table.uri)
    (region,) = create_regions(table.uri, dataset.version, 1)
    keys = np.random.default_rng(0).integers(0, table.rows, fresh)
    for part in np.array_split(keys, generations):
        # Closing the writer flushes its MemTable: each part becomes one generation.
        with dataset.mem_wal_writer(region, max_memtable_rows=fresh + 1) as writer:
            writer.put(make(part))


def _build_schema(key: Mapping[str, pa.Array]) -> pa.Schema:
    fields = [
        pa.field(
            name,
            values.type,
            nullable=False,
            metadata={
                "lance-schema:unenforced-primary-key": "true",
                "lance-schema:unenforced-primary-key:position": str(position),
            },
        )
        for position, (name, values) in enumerate(key.items(), start=1)
    ]
    return pa.schema([*fields, pa.field("price", pa.float64())])
