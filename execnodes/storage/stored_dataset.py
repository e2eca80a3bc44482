"""What a Lance dataset stores at one version, read once: pylance converts it again at each access."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from lance_gateway.execnodes.storage.data_files import Place, StoredFragments
from lance_gateway.memwal.columns.blobs import build_plain_schema, list_blobs
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE, StoredField, convert_fields


@dataclass(frozen=True, eq=False)
class StoredSchema:
    """The columns of a dataset; one object serves all datasets of a table that store the same ones.

    Args:
        lance: a `lance.schema.LanceSchema`.
        arrow: the same as an Arrow schema, in which blobs are bytes.
        blobs: columns that store blobs.
    """

    lance: Any
    arrow: pa.Schema
    blobs: frozenset[str]

    @staticmethod
    def of(dataset: Any) -> StoredSchema:  # noqa: ANN401 - lance types
        """Read the schema of a `lance.LanceDataset`."""
        schema = dataset.schema
        return StoredSchema(dataset.lance_schema, build_plain_schema(schema), list_blobs(schema))

    @cached_property
    def fields(self) -> tuple[StoredField, ...]:
        """Top-level fields, without `_tombstone`."""
        return convert_fields(self.lance, self.arrow)

    @cached_property
    def types(self) -> Mapping[str, tuple[int, pa.DataType]]:
        """Field id and type by column."""
        fields = zip(self.lance.fields(), self.arrow.types, strict=True)
        return {one.name(): (one.id(), kind) for one, kind in fields}

    @cached_property
    def has_tombstones(self) -> bool:
        """Whether rows have a tombstone flag."""
        return TOMBSTONE in self.arrow.names

    @cached_property
    def nested_ids(self) -> Mapping[int, tuple[int, ...]]:
        """Field ids below a column, by its own; columns without any are absent."""
        if not any(pa.types.is_nested(kind) for kind in self.arrow.types):
            return {}
        return {
            one.field_id: tuple([below.field_id for below in one.walk()])
            for one in self.fields
            if one.children
        }

    @cached_property
    def layout(self) -> Hashable | None:
        """Equal for datasets that store the same columns; None where types can't be compared, or are blobs.

        A dataset finds its blobs beside its own files.
        """
        layout = (*self.types.items(), *self.nested_ids.items())
        try:
            hash(layout)
        except TypeError:
            return None
        return None if self.blobs else layout


@dataclass(frozen=True, eq=False)
class StoredSchemas:
    """The schemas of the datasets of a table, of which most are equal; safe to share between threads."""

    _known: list[StoredSchema] = field(default_factory=list)

    def find(self, dataset: Any) -> StoredSchema:  # noqa: ANN401 - lance types
        """Return the schema of a `lance.LanceDataset`: the same object for equal ones."""
        schema = dataset.lance_schema
        for known in self._known:
            if known.lance == schema:
                return known
        found = StoredSchema.of(dataset)
        self._known.append(found)
        return found


@dataclass(frozen=True, eq=False)
class StoredDataset:
    """A dataset with its schema and its fragments.

    Args:
        dataset: a `lance.LanceDataset`.
        place: names it.
        schema: of it.
    """

    dataset: Any
    place: Place
    schema: StoredSchema

    @cached_property
    def fragments(self) -> StoredFragments:
        """The fragments of the dataset."""
        return StoredFragments(self.dataset, self.place)
