"""`system.columns` and `system.constraints`: what tables demand of their rows, and what they give to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lance_gateway.memwal.base.comments import read_column_comment
from lance_gateway.memwal.rules import IS_JSON, IS_UUID, list_defaults, list_lengths
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.system.listing import TABLE_FIELDS, OfTables

_TEXTS = pa.list_(pa.string())


class Columns(OfTables):
    """One row per column that the principal sees."""

    name = "columns"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
            ("column_name", pa.string()),
            ("column_default", pa.string()),
            ("max_length", pa.int64()),
            ("is_uuid", pa.bool_()),
            ("is_json", pa.bool_()),
            ("comment", pa.string()),
        ]
    )

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        declared = visible.table(name).declared_schema
        defaults, lengths = list_defaults(declared), list_lengths(declared)
        for field in declared:
            default = defaults.get(field.name)
            yield {
                "column_name": field.name,
                "column_default": None if default is None else default.expression,
                "max_length": lengths.get(field.name),
                "is_uuid": (field.metadata or {}).get(IS_UUID) == b"true",
                "is_json": (field.metadata or {}).get(IS_JSON) == b"true",
                "comment": read_column_comment(field),
            }


class Constraints(OfTables):
    """One row per primary key and named constraint.

    Conditions may name what is hidden, so constraints are shown to those who see all of a table.
    """

    name = "constraints"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
            ("constraint_name", pa.string()),
            ("constraint_type", pa.string()),
            ("columns", _TEXTS),
            ("definition", pa.string()),
            ("expression", pa.string()),
            ("is_enforced", pa.bool_()),
            ("referenced_schema", pa.string()),
            ("referenced_table", pa.string()),
            ("referenced_columns", _TEXTS),
        ]
    )

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        secured = visible.table(name)
        key = secured.primary_key
        if key:
            yield {
                "constraint_name": f"{name.table}_pkey",
                "constraint_type": "PRIMARY KEY",
                "columns": list(key),
                "definition": f"PRIMARY KEY ({', '.join(key)})",
                "is_enforced": True,
            }
        if not secured.access.is_unrestricted:
            return
        for one in secured.base.constraints:
            referenced = TableName.parse(one.referenced_table) if one.referenced_table else None
            yield {
                "constraint_name": one.name,
                "constraint_type": one.kind.value,
                "columns": list(one.columns),
                "definition": one.definition,
                "expression": one.expression or None,
                "is_enforced": one.enforced,
                "referenced_schema": None if referenced is None else referenced.schema,
                "referenced_table": None if referenced is None else referenced.table,
                "referenced_columns": list(one.referenced_columns),
            }
