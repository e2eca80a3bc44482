"""Tables of information_schema that DataFusion lacks, or fills in part, as views over it and `system`.

SELECT column_default FROM information_schema.columns
->  SELECT column_default FROM (SELECT .. FROM information_schema.columns AS c LEFT JOIN ..) AS columns
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from planner.tables.state.catalog import CATALOG, SCHEMA

INFORMATION_SCHEMA: Final = "information_schema"


@dataclass(frozen=True, slots=True)
class InformationView:
    """A table of information_schema.

    Attributes:
        select: its rows.
        source: system table that it reads; "" for none.
        schema: its columns, where DataFusion has no table of that name.
    """

    select: str
    source: str = ""
    schema: pa.Schema | None = None


_COLUMNS: Final = """
SELECT c.table_catalog, c.table_schema, c.table_name, c.column_name, c.ordinal_position,
  s.column_default AS column_default, c.is_nullable, c.data_type,
  CASE WHEN c.data_type IN ('Utf8', 'LargeUtf8') THEN CAST(s.max_length AS BIGINT UNSIGNED) END
    AS character_maximum_length,
  CASE WHEN c.data_type IN ('Binary', 'LargeBinary') AND s.max_length IS NOT NULL
    THEN CAST(s.max_length AS BIGINT UNSIGNED) ELSE c.character_octet_length END AS character_octet_length,
  c.numeric_precision, c.numeric_precision_radix, c.numeric_scale, c.datetime_precision, c.interval_type
FROM information_schema.columns AS c
LEFT JOIN system.columns AS s
  ON s.table_name = c.table_name AND s.column_name = c.column_name AND c.table_schema = '{schema}'
"""
_TABLE_CONSTRAINTS: Final = """
SELECT '{catalog}' AS constraint_catalog, '{schema}' AS constraint_schema, s.constraint_name,
  '{catalog}' AS table_catalog, '{schema}' AS table_schema, s.table_name, s.constraint_type,
  'NO' AS is_deferrable, 'NO' AS initially_deferred,
  CASE WHEN s.is_enforced THEN 'YES' ELSE 'NO' END AS enforced
FROM system.constraints AS s
"""
_CHECK_CONSTRAINTS: Final = """
SELECT '{catalog}' AS constraint_catalog, '{schema}' AS constraint_schema, s.constraint_name,
  s.expression AS check_clause
FROM system.constraints AS s WHERE s.constraint_type = 'CHECK'
"""
_KEY_COLUMN_USAGE: Final = """
SELECT '{catalog}' AS constraint_catalog, '{schema}' AS constraint_schema, u.constraint_name,
  '{catalog}' AS table_catalog, '{schema}' AS table_schema, u.table_name, u.column_name, u.ordinal_position
FROM (
  SELECT s.constraint_name, s.table_name, unnest(s.columns) AS column_name,
    unnest(range(1, CAST(cardinality(s.columns) AS BIGINT) + 1)) AS ordinal_position
  FROM system.constraints AS s WHERE s.constraint_type <> 'CHECK'
) AS u
"""


def _texts(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string()) for name in names]


_CONSTRAINT: Final = _texts("constraint_catalog", "constraint_schema", "constraint_name")
_TABLE: Final = _texts("table_catalog", "table_schema", "table_name")
_ADDED: Final[Mapping[str, InformationView]] = MappingProxyType(
    {
        "table_constraints": InformationView(
            _TABLE_CONSTRAINTS,
            "constraints",
            pa.schema(
                _CONSTRAINT
                + _TABLE
                + _texts("constraint_type", "is_deferrable", "initially_deferred", "enforced")
            ),
        ),
        "check_constraints": InformationView(
            _CHECK_CONSTRAINTS, "constraints", pa.schema(_CONSTRAINT + _texts("check_clause"))
        ),
        "key_column_usage": InformationView(
            _KEY_COLUMN_USAGE,
            "constraints",
            pa.schema(_CONSTRAINT + _TABLE + [*_texts("column_name"), ("ordinal_position", pa.int64())]),
        ),
    }
)
_TABLES: Final = """
SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables
UNION ALL SELECT '{catalog}', 'information_schema', column1, 'VIEW'
  FROM (VALUES ('table_constraints'), ('check_constraints'), ('key_column_usage'))
"""
VIEWS: Final[Mapping[str, InformationView]] = MappingProxyType(
    {
        name: InformationView(
            view.select.format(catalog=CATALOG, schema=SCHEMA).strip(), view.source, view.schema
        )
        for name, view in {
            "columns": InformationView(_COLUMNS, "columns"),
            "tables": InformationView(_TABLES, "constraints"),
            **_ADDED,
        }.items()
    }
)
"""Name -> view."""


def added_tables() -> dict[str, pa.Schema]:
    """Return name -> columns of the tables that DataFusion does not have."""
    return {name: view.schema for name, view in VIEWS.items() if view.schema is not None}
