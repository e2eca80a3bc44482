"""Making tables: a base table and its MemWAL appear in one step, with any region spec.

- `columns`: what a table's schema must look like: marks of keys, NOT NULL, types that can be stored.
- `region_by`: how a table's MemWAL is set up: how rows map to regions, such as ``bucket(user_id, 16)``.
- `tables`: the one step, and its undoing; regions that an earlier MemWAL left behind.
- `fields`: schemas with field ids of our choice.
"""

from memwal.creating.columns import (
    KEY_TYPES,
    NOT_NULL,
    TABLE_ID,
    build_stored_schema,
    list_key_columns,
    list_not_null_columns,
)
from memwal.creating.region_by import MemWalOptions, list_region_columns, parse_region_fields
from memwal.creating.tables import create_dataset, delete_table, table_exists, write_fragments

__all__ = [
    "KEY_TYPES",
    "NOT_NULL",
    "TABLE_ID",
    "MemWalOptions",
    "build_stored_schema",
    "create_dataset",
    "delete_table",
    "list_key_columns",
    "list_not_null_columns",
    "list_region_columns",
    "parse_region_fields",
    "table_exists",
    "write_fragments",
]
