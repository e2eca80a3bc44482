"""What DataFusion pushes: a leaf that remembers the filters that it was given."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from tests.planner.names import context


class _Scan:
    def __init__(self, schema: pa.Schema) -> None:
        self.projected_schema = schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([], schema=self.projected_schema)


class _Fragment:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def scanner(self, *_: Any, columns: list[str] | None = None, **__: Any) -> _Scan:
        names = self._schema.names if columns is None else columns
        return _Scan(pa.schema([self._schema.field(name) for name in names]))


class RecordingLeaf(pads.Dataset):
    """An empty table of some schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.filters: list[pc.Expression | None] = []

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: list[str] | None = None, **_: Any) -> _Scan:
        return _Fragment(self._schema).scanner(columns=columns)

    def get_fragments(self, filter: pc.Expression | None = None) -> list[_Fragment]:
        self.filters.append(filter)
        return [_Fragment(self._schema)]


def pushed(schema: pa.Schema, condition: str) -> list[pc.Expression | None]:
    """The filters with which a table is read for `SELECT * FROM t WHERE condition`; [] if it is not read."""
    leaf = RecordingLeaf(schema)
    found, sql = context(), f"SELECT * FROM t WHERE {condition}"
    found.register_dataset("t", leaf)
    try:
        found.sql(sql).collect()
    except Exception:  # noqa: BLE001 - told by the second attempt, where it is no matter of push-down
        # DataFusion's bindings can't combine a conjunct that folds to a constant with one that doesn't; the
        # engine then plans without push-down, and the leaf is read as a whole.
        found.remove_optimizer_rule("push_down_filter")
        found.sql(sql).collect()
        return [None]
    return leaf.filters
