"""What is searched, and the candidates that searching it gives."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.rows.row_mask import EVERYTHING_VISIBLE, RowMask
from execnodes.storage.source import LanceSource, MemTableSource

QUERY_INDEX = "query_index"
"""Int32: which query of a call, counted from 0, a row answers; Lance's own name for it."""
SOURCE = "_source"
"""Int32: `SearchSource.number` of the source in which a candidate was found."""
DISTANCE = "_distance"
"""Float32: smaller is nearer: squared for l2; one minus cosine or product; bits that differ for hamming."""
SCORE = "_score"
"""Float32: BM25, larger is better."""
HYBRID_SCORE = "_hybrid_score"
"""Float32: larger is better."""

PLACE_FIELDS = (
    pa.field(QUERY_INDEX, pa.int32()),
    pa.field(SOURCE, pa.int32()),
    pa.field(ROW_ADDRESS, pa.uint64()),
)
VECTOR_CANDIDATES = pa.schema([*PLACE_FIELDS, pa.field(DISTANCE, pa.float32())])
TEXT_CANDIDATES = pa.schema([*PLACE_FIELDS, pa.field(SCORE, pa.float32())])
HYBRID_CANDIDATES = pa.schema(
    [
        *PLACE_FIELDS,
        pa.field(DISTANCE, pa.float32()),
        pa.field(SCORE, pa.float32()),
        pa.field(HYBRID_SCORE, pa.float32()),
    ]
)


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """A vector or inverted index that covers all rows of a source.

    Attributes:
        name: of the index in the source's dataset.
        type: as Lance calls it, such as IVF_PQ or INVERTED.
        details: its options, as `describe_indices` tells them.
    """

    name: str
    type: str
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SearchSource:
    """Rows that are searched together: of one dataset or log tail, all covered by one index or by none.

    Args:
        number: names the source among those of one search.
        rows: where they lie.
        identity: names the rows in caches; equal for the same immutable rows, whichever of them are live.
        live: rows that are the newest of their key (and that the principal may see).
        fragments: ids of the fragments that are searched, ascending; a log tail is fragment 0.
        index: what covers them; None where every row must be looked at.
        region_id: whose rows they are; None for the base table, which has rows of every region.
        fragment_identities: fragment id -> what names its rows in caches, apart from those of the others.
        stem: names rows that grow in number: of sources with one stem, the shorter begins the longer.
    """

    number: int
    rows: LanceSource | MemTableSource
    identity: Hashable
    live: RowMask = EVERYTHING_VISIBLE
    fragments: tuple[int, ...] = (0,)
    index: IndexDescription | None = None
    region_id: str | None = None
    fragment_identities: Mapping[int, Hashable] = field(default_factory=dict)
    stem: Hashable | None = None

    def fragment_identity(self, fragment_id: int) -> Hashable:
        """Names the rows of one fragment in caches, whatever else the source has."""
        return self.fragment_identities.get(fragment_id, (self.identity, fragment_id))

    @property
    def label(self) -> str:
        """For plans."""
        return self.rows.label
