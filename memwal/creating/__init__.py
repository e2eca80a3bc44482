"""Create a base table and its MemWAL in one step, with any region spec.

- `columns`: schemas: keys, NOT NULL, and storage types.
- `region_by`: region specs as text, such as ``bucket(user_id, 16)``.
- `tables`: creation and deletion of tables; regions that an earlier MemWAL left behind.
- `fields`: schemas with explicit field ids.
- `index_types`: types of indexes, and the text of their parameters.
- `key_index`: indexes that the columns of a primary key have by default.
"""

from lance_gateway.memwal.creating.columns import (
    KEY_TYPES,
    NOT_NULL,
    TABLE_ID,
    build_stored_schema,
    declare_key,
    list_key_columns,
    list_not_null_columns,
)
from lance_gateway.memwal.creating.region_by import MemWalOptions, list_region_columns, parse_region_fields
from lance_gateway.memwal.creating.tables import create_dataset, delete_table, table_exists, write_fragments

__all__ = [
    "KEY_TYPES",
    "NOT_NULL",
    "TABLE_ID",
    "MemWalOptions",
    "build_stored_schema",
    "create_dataset",
    "declare_key",
    "delete_table",
    "list_key_columns",
    "list_not_null_columns",
    "list_region_columns",
    "parse_region_fields",
    "table_exists",
    "write_fragments",
]
