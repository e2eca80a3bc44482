"""Columns of datasets and log entries by field id, which stays the same when a column is renamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_gateway.memwal.columns.blobs import build_plain_schema

TOMBSTONE = "_tombstone"
"""Column of a generation or log entry that says whether the row deletes its key."""
FIELD_ID = b"lance:field_id"


@dataclass(frozen=True, slots=True)
class StoredField:
    """A field with its Lance field id.

    Attributes:
        field_id: stays the same when the field is renamed; -1 where none is recorded.
        name: as stored.
        type: as stored.
        children: of a struct or a list.
    """

    field_id: int
    name: str
    type: pa.DataType
    children: tuple[StoredField, ...]

    def rename_children(self, names: Mapping[int, str]) -> pa.DataType:
        """Return the type with its children named by their ids; dropped children match none."""
        if not self.children:
            return self.type
        children = [
            pa.field(names.get(child.field_id, f"dropped {child.field_id}"), child.rename_children(names))
            for child in self.children
        ]
        if pa.types.is_struct(self.type):
            return pa.struct(children)
        if pa.types.is_fixed_size_list(self.type):
            return pa.list_(children[0], self.type.list_size)
        if pa.types.is_large_list(self.type):
            return pa.large_list(children[0])
        return pa.list_(children[0]) if pa.types.is_list(self.type) else self.type

    def walk(self) -> Iterator[StoredField]:
        """Yield the field and all fields below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def read_dataset_fields(dataset: Any) -> tuple[StoredField, ...]:  # noqa: ANN401 - lance types
    """Return the top-level fields of a `lance.LanceDataset`, without `_tombstone`.

    Lance numbers `_tombstone` as it would the next column: its id may since have been given to one.
    """
    return convert_fields(dataset.lance_schema, build_plain_schema(dataset.schema))


def convert_fields(schema: Any, arrow: pa.Schema) -> tuple[StoredField, ...]:  # noqa: ANN401 - lance types
    """Return the top-level fields of a `lance.schema.LanceSchema`, see `read_dataset_fields`.

    Args:
        schema: of a dataset.
        arrow: the same as an Arrow schema; blobs are bytes.
    """
    fields = zip(arrow.names, schema.fields(), arrow.types, strict=True)
    return tuple(_convert_lance(field, kind) for name, field, kind in fields if name != TOMBSTONE)


def read_entry_fields(schema: pa.Schema) -> tuple[StoredField, ...]:
    """Return the top-level fields of a WAL entry, without `_tombstone`; ids are in the metadata."""
    return tuple(_convert_arrow(field) for field in schema if field.name != TOMBSTONE)


def _convert_lance(field: Any, kind: pa.DataType) -> StoredField:  # noqa: ANN401 - lance types
    children: tuple[StoredField, ...] = ()
    if below := _list_children(kind):
        pairs = zip(field.children(), below, strict=False)
        children = tuple(_convert_lance(child, one.type) for child, one in pairs)
    return StoredField(field.id(), field.name(), kind, children)


def _convert_arrow(field: pa.Field) -> StoredField:
    field_id = int((field.metadata or {}).get(FIELD_ID, b"-1"))
    return StoredField(
        field_id, field.name, field.type, tuple(map(_convert_arrow, _list_children(field.type)))
    )


def _list_children(kind: pa.DataType) -> list[pa.Field]:
    if not kind.num_fields:
        return []
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [kind.value_field]
    if pa.types.is_fixed_size_list(kind) and pa.types.is_nested(kind.value_type):
        return [kind.value_field]
    return []  # the numbers of a vector are no fields to Lance
