"""Indexes that the columns of a primary key have by default, and how a table says that it wants others.

A BTREE finds the rows of a key without reading the whole key column. An index has one column. So of a key of
several columns the first one gets an index, by which rows that share it are found, and the last one, which
usually distinguishes them.

A table that wants others lists their columns in its configuration, as JSON under `KEY_INDEX`: `[]` for none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lance_gateway.memwal.creating.columns import list_key_columns
from lance_gateway.memwal.errors import InvalidInputError

KEY_INDEX: Final = "lance-gateway.key-index"
"""Key in the configuration of a table."""
_TYPE: Final = "BTREE"
FINDING_TYPES: Final = frozenset({"BTree", "Bitmap"})
"""Types of indexes, as Lance lists them, that find the rows with a value."""


def list_default_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Return the key columns that have an index by default: the first and the last; booleans have none."""
    key = list_key_columns(schema)
    ends = dict.fromkeys((*key[:1], *key[-1:]))
    return tuple(name for name in ends if not pa.types.is_boolean(schema.field(name).type))


def list_wanted_columns(dataset: Any) -> tuple[str, ...]:  # noqa: ANN401 - lance types
    """Return the key columns of a `lance.LanceDataset` that should have an index."""
    key = list_key_columns(dataset.schema)
    listed = dataset.config().get(KEY_INDEX)
    if listed is None:
        return list_default_columns(dataset.schema)
    try:
        names = json.loads(listed)
    except ValueError:
        names = None
    if not isinstance(names, list):
        return list_default_columns(dataset.schema)  # Nobody but the gateway writes it.
    return tuple(name for name in key if name in names)


def list_unindexed_columns(dataset: Any) -> tuple[str, ...]:  # noqa: ANN401 - lance types
    """Return the key columns of a `lance.LanceDataset` that should have an index and have none."""
    wanted = list_wanted_columns(dataset)
    if not wanted:
        return ()
    indexed = {
        name
        for index in dataset.describe_indices()
        if index.index_type in FINDING_TYPES and len(index.field_names) == 1
        for name in index.field_names
    }
    return tuple(name for name in wanted if name not in indexed)


def name_key_index(column: str, taken: Collection[str]) -> str:
    """Return the name of a new index of a key column: ``id_idx``, unless another index has that name."""
    name, number = f"{column}_idx", 1
    while name in taken:
        number += 1
        name = f"{column}_idx_{number}"
    return name


def build_key_index(dataset: Any, column: str) -> str:  # noqa: ANN401 - lance types
    """Build and commit the index of a key column of a `lance.LanceDataset`; returns its name."""
    name = name_key_index(column, {index.name for index in dataset.describe_indices()})
    dataset.create_scalar_index(column, _TYPE, name=name, replace=False)
    return name


def check_key_index(columns: Sequence[str], key: Sequence[str]) -> None:
    """Check that the columns that a table is to have key indexes of are columns of its key.

    Raises:
        InvalidInputError: one is not.
    """
    for name in columns:
        if name not in key:
            has = f"its columns are {', '.join(key)}" if key else "there is none"
            msg = f"key_index names {name!r}, which is not a column of the primary key: {has}"
            raise InvalidInputError(msg)


def encode_key_index(columns: Sequence[str] | None) -> Mapping[str, str | None]:
    """Encode the columns that a table wants indexes of; None for the default, which removes the entry."""
    return {KEY_INDEX: None if columns is None else json.dumps(list(columns))}
