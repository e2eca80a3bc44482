"""Indexes that were asked for as one index over several columns.

An index of Lance has one column. A statement that names several makes one index for each, and the table's
configuration keeps under `lance-gateway.index-group.NAME`, as JSON, which these are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

INDEX_GROUP: Final = "lance-gateway.index-group."
"""Begins the keys in the configuration of a table."""


def list_index_groups(dataset: Any) -> Mapping[str, tuple[str, ...]]:  # noqa: ANN401 - lance types
    """Return name -> names of its indexes, for the groups of a `lance.LanceDataset`."""
    groups = {}
    for key, value in dataset.config().items():
        if not key.startswith(INDEX_GROUP):
            continue
        try:
            names = json.loads(value)
        except ValueError:
            continue  # Nobody but the gateway writes it.
        if isinstance(names, list):
            groups[key.removeprefix(INDEX_GROUP)] = tuple(map(str, names))
    return groups


def encode_index_group(name: str, indexes: Sequence[str]) -> Mapping[str, str]:
    """Return the entry of a table's configuration for a group."""
    return {f"{INDEX_GROUP}{name}": json.dumps(list(indexes))}
