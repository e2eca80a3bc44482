"""What a transaction has written to one table, and how it becomes one change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.writing import Changes
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.transaction_table import encode_own_rows
from lance_gateway.planner.writes.dml.reading.read_rows import keep_last_of_key
from lance_gateway.planner.writes.dml.statement.target import Target

_ORDER = "order#"
_DEAD = "dead#"


@dataclass(eq=False)
class WrittenTable:
    """What a transaction has written to one table.

    Attributes:
        target: the table.
        base: version whose columns the rows have.
        changes: in order.
        rows: region id -> the same as rows of a log tail.
        encoded: region id -> the same as IPC streams, as far as they were needed.
        read_keys: keys of rows that were read before they were changed.
        number: changes whenever rows are taken back.
    """

    target: Target
    base: BaseTable
    changes: list[Changes] = field(default_factory=list)
    rows: dict[str, list[pa.Table]] = field(default_factory=dict)
    encoded: dict[str, list[bytes]] = field(default_factory=dict)
    read_keys: list[pa.Table] = field(default_factory=list)
    number: bytes = field(default_factory=lambda: os.urandom(8))

    def encode(self) -> Mapping[str, tuple[bytes, ...]]:
        """Return the rows of each region as IPC streams; none is encoded twice."""
        for region_id, tables in self.rows.items():
            encoded = self.encoded.setdefault(region_id, [])
            encoded += map(encode_own_rows, tables[len(encoded) :])
        return {region_id: tuple(encoded) for region_id, encoded in self.encoded.items()}


@dataclass(frozen=True, slots=True)
class Mark:
    """How much of a `WrittenTable` there was before a statement."""

    changes: int
    read_keys: int
    rows: Mapping[str, int]


def merge_changes(written: WrittenTable) -> Changes:
    """Return changes of one table as one, the last of each key."""
    changes, target = written.changes, written.target
    upserts = [one.upserts for one in changes if one.upserts is not None]
    rows = pa.concat_tables(upserts) if upserts else None
    deletes = [one.deletes for one in changes if one.deletes is not None]
    if not deletes:
        return Changes(rows if not target.key or rows is None else keep_last_of_key(rows, target.key))
    # Keys with the place of their row among those that are written, or deleted.
    key, pieces, places = list(target.key), [], {False: 0, True: 0}
    for one in changes:
        for part, dead in ((one.upserts, False), (one.deletes, True)):
            if part is not None and part.num_rows:
                first = places[dead]
                places[dead] += part.num_rows
                numbers = pa.array(range(first, places[dead]), pa.int64())
                keys = part.select(key).cast(pa.schema([target.schema.field(name) for name in key]))
                flags = pa.repeat(pa.scalar(dead), part.num_rows)
                pieces.append(keys.append_column(_ORDER, numbers).append_column(_DEAD, flags))
    newest = keep_last_of_key(pa.concat_tables(pieces), key)
    dead = newest.column(_DEAD)
    gone = pa.concat_tables([one.select(list(target.place_columns)) for one in deletes])
    live = newest.filter(pc.invert(dead)).column(_ORDER)
    return Changes(
        None if rows is None or not len(live) else rows.take(live),
        gone.take(newest.filter(dead).column(_ORDER)),
    )
