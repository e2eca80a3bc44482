"""Layers of a table with text, written by hand, and the one table that they amount to."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, MetricsSet, TaskContext
from lance_gateway.execnodes.rows.row_mask import OFFSET_MASK, RowMask, build_fragment_mask
from lance_gateway.execnodes.search.source import SCORE, SOURCE, IndexDescription, SearchSource
from lance_gateway.execnodes.storage.source import ColumnMapping, LanceSource, MemTableSource, StoredColumn
from lance_gateway.execnodes.text.query.clauses import analyze
from lance_gateway.execnodes.text.query.query import TextQuery, convert_to_lance_query
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE
from lance_gateway.planner.search.plan_search import plan_text
from lance_gateway.planner.search.sources.source_texts import SourceTexts
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns

Document = str | None
Rows = Mapping[int, tuple[Document, ...]]
"""Key -> a text for each column."""
DELETED = ("deleted",)
COLUMNS = ("body", "title")
_ID = "id"


def schema(columns: Sequence[str]) -> pa.Schema:
    """Of the tables."""
    return pa.schema([pa.field(_ID, pa.int64()), *(pa.field(name, pa.string()) for name in columns)])


@dataclass(frozen=True)
class Layer:
    """Rows that were written together, newer than those of the layers before.

    Attributes:
        rows: key, and the row's texts; None for a tombstone. A key may repeat: the last one counts.
        kind: "indexed", "flat" (a dataset without index) or "tail" (in memory).
        rows_per_file: of a dataset.
        deleted: keys that Lance deletes from the dataset, once it is indexed.
        segments: into how many segments the index is divided.
    """

    rows: Sequence[tuple[int, tuple[Document, ...] | None]]
    kind: str = "indexed"
    rows_per_file: int = 1_000
    deleted: frozenset[int] = frozenset()
    segments: int = 1


@dataclass
class TextHistory:
    """Layers, the first being the base table.

    Args:
        path: directory for datasets.
        columns: with text.
        options: of the index on every column.
    """

    path: Path
    columns: tuple[str, ...] = COLUMNS[:1]
    options: Mapping[str, Any] = field(default_factory=dict)
    cache: ByteCache = field(default_factory=lambda: ByteCache(1 << 26))

    def __post_init__(self) -> None:
        self.layers: list[Layer] = []
        self._written: list[tuple[LanceSource | MemTableSource, IndexDescription | None]] = []
        self._places: list[list[tuple[int, int]]] = []
        self.decoded = DecodedColumns(1 << 26)
        self.metrics = MetricsSet()

    def add(self, layer: Layer) -> TextHistory:
        """Write one more layer."""
        number = len(self.layers)
        self.layers.append(layer)
        table = self._table(layer.rows)
        if layer.kind == "tail":
            self._written.append((MemTableSource(f"tail {number}", table), None))
            self._places.append([(0, offset) for offset in range(table.num_rows)])
            return self
        dataset = self._dataset(self.path / f"layer{number}", table, layer)
        stored = {name: StoredColumn(name, pa.string()) for name in self.columns}
        stored[_ID] = StoredColumn(_ID, pa.int64())
        source = LanceSource(f"layer {number}", dataset, schema(self.columns), ColumnMapping(stored))
        index = description(dataset) if layer.kind == "indexed" else None
        self._written.append((source, index))
        return self

    def put(self, *rows: tuple[int, tuple[Document, ...] | None]) -> None:
        """Append to the last layer, which is a tail."""
        before = self.layers.pop()
        self._written.pop()
        self._places.pop()
        self.add(Layer([*before.rows, *rows], "tail"))

    def rebuild(self, **options: Any) -> None:
        """Build the base table's indexes again, with other options."""
        self.options = options
        base, _ = self._written[0]
        assert isinstance(base, LanceSource)
        dataset: Any = base.dataset
        build_indexes(dataset, self.columns, options)
        reopened = lance.dataset(dataset.uri)
        self._written[0] = replace(base, dataset=reopened), description(reopened)

    def _dataset(self, path: Path, table: pa.Table, layer: Layer) -> Any:
        indexed = layer.kind == "indexed"
        size = -(-max(table.num_rows, 1) // layer.segments)
        for part in range(layer.segments):
            rows = table.slice(part * size, size)
            mode = "append" if part else "create"
            dataset = lance.write_dataset(rows, path, mode=mode, max_rows_per_file=layer.rows_per_file)
            if indexed and not part:
                build_indexes(dataset, self.columns, self.options)
            elif indexed:
                dataset.optimize.optimize_indices(num_indices_to_merge=0)
        dataset = lance.dataset(path)
        fragments = dataset.get_fragments()
        self._places.append(
            [(one.fragment_id, offset) for one in fragments for offset in range(one.physical_rows)]
        )
        if layer.deleted:
            dataset.delete(f"{_ID} IN ({', '.join(map(str, sorted(layer.deleted)))})")
        return lance.dataset(path)

    def _table(self, rows: Sequence[tuple[int, tuple[Document, ...] | None]]) -> pa.Table:
        ids = pa.array([key for key, _ in rows], pa.int64())
        texts = [
            pa.array([None if row is None else row[place] for _, row in rows], pa.string())
            for place in range(len(self.columns))
        ]
        dead = pa.array([row is None for _, row in rows], pa.bool_())
        return pa.table([ids, *texts, dead], names=[_ID, *self.columns, TOMBSTONE])

    def newest(self) -> dict[int, tuple[Document, ...]]:
        """Key -> texts of its newest version."""
        rows: dict[int, tuple[Document, ...]] = {}
        for layer in self.layers:
            written = {key: texts for key, texts in layer.rows if key not in layer.deleted}
            for key, texts in written.items():
                if texts is None:
                    rows.pop(key, None)
                else:
                    rows[key] = texts
        return rows

    def sources(self) -> list[SearchSource]:
        """What a search of all layers searches."""
        found = []
        seen: set[int] = set()
        for number in reversed(range(len(self.layers))):
            layer, (rows, index) = self.layers[number], self._written[number]
            hidden: dict[int, list[int]] = {}
            sizes: dict[int, int] = {}
            placed = list(zip(layer.rows, self._places[number], strict=True))
            for (key, texts), (fragment_id, offset) in reversed(placed):
                sizes[fragment_id] = max(sizes.get(fragment_id, 0), offset + 1)
                if key in layer.deleted:
                    continue
                if key in seen or texts is None:
                    hidden.setdefault(fragment_id, []).append(offset)
                seen.add(key)
            masks = {
                one: build_fragment_mask(sizes[one], np.array(offsets, dtype=np.uint32))
                for one, offsets in hidden.items()
            }
            version = None if isinstance(rows, MemTableSource) else rows.dataset.version  # type: ignore[attr-defined]
            identity: Hashable = ("layer", str(self.path), number, len(layer.rows), version)
            fragments = (0,) if isinstance(rows, MemTableSource) else _fragments(rows.dataset)
            stem = ("stem", str(self.path), number) if isinstance(rows, MemTableSource) else None
            mask = RowMask(masks)
            found.append(SearchSource(number, rows, identity, mask, fragments, index, stem=stem))
        return found[::-1]

    def search(
        self, query: TextQuery, k: int = 10, *, admitted: Sequence[SearchSource] = (), row_filter: Any = None
    ) -> list[tuple[int, float]]:
        """Keys and scores, best first."""
        sources = self.sources()
        indexes = {column: self._base_index(column) for column in query.columns}
        texts = SourceTexts(indexes, self.cache, self.decoded)
        clause = analyze(query, texts.tokenizers)
        node = plan_text(sources, admitted or sources, query, clause, k, row_filter, texts)
        self.metrics = MetricsSet()
        self.node = node
        batches = list(node.execute(0, TaskContext(metrics=self.metrics)))
        found = pa.Table.from_batches(batches, schema=node.schema).to_pylist()
        return [(self.key(row[SOURCE], row[ROW_ADDRESS]), row[SCORE]) for row in found]

    def key(self, source: int, address: int) -> int:
        """Of a row by its place."""
        place = address >> 32, address & OFFSET_MASK
        return self.layers[source].rows[self._places[source].index(place)][0]

    def _base_index(self, column: str) -> IndexDescription:
        base = self._written[0][0]
        assert isinstance(base, LanceSource)
        return description(base.dataset, column)

    def merged(self, name: str = "merged") -> Any:
        """One table of the newest rows, freshly indexed."""
        rows = sorted(self.newest().items())
        table = self._table(rows).drop_columns([TOMBSTONE])
        dataset = lance.write_dataset(table, self.path / name, mode="overwrite", max_rows_per_file=10_000)
        build_indexes(dataset, self.columns, self.options)
        return lance.dataset(self.path / name)


def _fragments(dataset: Any) -> tuple[int, ...]:
    return tuple(sorted(one.fragment_id for one in dataset.get_fragments()))


def build_indexes(dataset: Any, columns: Sequence[str], options: Mapping[str, Any]) -> None:
    """Build a text index on every column."""
    for column in columns:
        dataset.create_scalar_index(column, "INVERTED", with_position=True, **options)


def description(dataset: Any, column: str = COLUMNS[0]) -> IndexDescription:
    """Of the text index on a column."""
    for index in dataset.describe_indices():
        if list(index.field_names) == [column]:
            return IndexDescription(index.name, index.index_type, index.details)
    raise AssertionError(f"no index on {column}")


def lance_ranking(dataset: Any, query: TextQuery, condition: str | None = None) -> dict[int, float]:
    """Key -> score of everything that Lance finds."""
    found = dataset.scanner(
        columns=[_ID, SCORE], full_text_query=convert_to_lance_query(query), filter=condition, prefilter=True
    ).to_table()
    return dict(zip(found.column(_ID).to_pylist(), found.column(SCORE).to_pylist(), strict=True))


def assert_same_ranking(found: Sequence[tuple[int, float]], expected: Mapping[int, float], k: int) -> None:
    """The k best, by score; of equal scores, any order and any choice at the end."""
    best = sorted(expected.values(), reverse=True)[:k]
    assert len(found) == len(best), (found, expected)
    assert len(dict(found)) == len(found), found
    for (key, score), wanted in zip(found, best, strict=True):
        tolerance = 1e-3 * max(abs(wanted), 1e-3)
        assert abs(score - wanted) <= tolerance, (found, expected)
        assert abs(expected[key] - wanted) <= tolerance, (found, expected)
