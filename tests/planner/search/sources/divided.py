"""How the rows of a searched table are divided among the sources of a search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.execnodes.storage.source import LanceSource, convert_columns
from lance_gateway.planner.search.sources.catch_up import CatchUp, CatchUpMode
from lance_gateway.planner.search.sources.index_coverage import Coverage, IndexKind
from lance_gateway.planner.search.sources.search_sources import list_sources
from lance_gateway.planner.tables.sources.snapshot import Consistency, TableSnapshot
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.visibility.visibility import Visibility

COLUMN_OF = {IndexKind.VECTOR: "vec", IndexKind.TEXT: "txt"}


class Divided:
    """Asks a table for the sources of searches, as a gateway that runs all the time would.

    Args:
        root: of the catalog.
        name: of the table.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.catalog = Catalog.open(str(root))
        self.table: Table = self.catalog.table(name)
        self.visibility = Visibility(self.catalog.cache, self.catalog.executor)

    def close(self) -> None:
        self.catalog.close()

    def snapshot(self, consistency: Consistency = "strong") -> TableSnapshot:
        """The newest state of all regions."""
        regions = self.table.assignments(self.table.base(), consistency).region_ids
        return self.table.take_snapshot(regions, consistency)

    def sources(
        self,
        kind: IndexKind,
        mode: CatchUpMode = CatchUpMode.ALWAYS,
        *,
        column: str | None = None,
        regions: Sequence[str] | None = None,
        together_with: Sequence[Coverage] = (),
        snapshot: TableSnapshot | None = None,
    ) -> tuple[SearchSource, ...]:
        """The sources of a search in the newest state, or in a given one."""
        snapshot = snapshot or self.snapshot()
        masks = self.visibility.compute_masks(snapshot) if snapshot.base.primary_key else None
        return list_sources(
            snapshot,
            masks,
            frozenset(snapshot.regions if regions is None else regions),
            column or COLUMN_OF[kind],
            kind,
            catch_up=CatchUp(self.table, self.visibility, mode),
            together_with=together_with,
        )


def rows_in(source: SearchSource) -> list[dict[str, Any]]:
    """The live rows of a source, as a search would give them out."""
    if not isinstance(source.rows, LanceSource):
        rows = source.rows.rows
        addresses = pa.array(range(rows.num_rows), pa.uint64())
        (batch,) = rows.drop_columns(["_tombstone"]).combine_chunks().to_batches() or [None]
        return [] if batch is None else source.live.keep(batch, addresses).to_pylist()
    dataset: Any = source.rows.dataset
    fragments = [dataset.get_fragment(one) for one in source.fragments]
    found = []
    for batch in dataset.scanner(fragments=fragments, with_row_address=True).to_batches():
        fields = list(source.rows.schema)
        table_rows = pa.RecordBatch.from_arrays(
            convert_columns(batch, fields, source.rows.stored), schema=source.rows.schema
        )
        found += source.live.keep(table_rows, batch.column(ROW_ADDRESS)).to_pylist()
    return found


def labels(sources: Sequence[SearchSource]) -> list[str]:
    """What plans call the sources, with fragments of the base table and the index that is asked."""
    return [
        f"{one.label.split(' ', 1)[1] if one.region_id is None else one.label}"
        f"{f' {list(one.fragments)}' if one.region_id is None else ''}"
        f", {'flat' if one.index is None else one.index.name}"
        for one in sources
    ]


def answering(sources: Sequence[SearchSource]) -> dict[int, int]:
    """Number of each merged generation that answers -> rows that it answers for."""
    found = {}
    for one in sources:
        if "catch-up" in one.label:
            number = int(one.label.split(" gen ")[1].split(" ")[0])
            found[number] = found.get(number, 0) + len(rows_in(one))
    return found
