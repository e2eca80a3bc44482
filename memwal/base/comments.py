"""Comments on tables and columns.

A column's is in the metadata of its field, under any of some usual names. A table's is in the metadata of its
schema, where CREATE TABLE and other programs write it, or in its configuration, which can change while there
are logs, and wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

COMMENT: Final = "comment"
"""Name under which comments are written."""
_NAMES: Final = (b"remarks", b"comment", b"description")
_CONFIG_KEY: Final = "lance-gateway.comment"


def read_column_comment(field: pa.Field) -> str | None:
    """Return the comment on a column; None without."""
    stored = {key.lower(): value for key, value in (field.metadata or {}).items()}
    comment = next((stored[key] for key in _NAMES if key in stored), None)
    return None if comment is None else comment.decode(errors="replace")


def read_table_comment(dataset: Any) -> str | None:  # noqa: ANN401 - lance types
    """Return the comment on the table of a `lance.LanceDataset`; None without."""
    stored = dataset.config().get(_CONFIG_KEY)
    if stored is not None:
        return stored or None
    comment: bytes | None = (dataset.schema.metadata or {}).get(COMMENT.encode())
    return None if comment is None else comment.decode(errors="replace")


def encode_column_comment(field: pa.Field, comment: str | None) -> Mapping[str, str | None]:
    """Return changes of a field's metadata by which it has this comment alone; None for none."""
    others = {key.decode(): None for key in field.metadata or {} if key.lower() in _NAMES}
    return {**others, COMMENT: comment}


def encode_table_comment(comment: str | None) -> Mapping[str, str]:
    """Return entries of a table's configuration by which it has this comment; None for none."""
    return {_CONFIG_KEY: comment or ""}
