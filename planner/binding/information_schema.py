"""Tables of information_schema that DataFusion lacks, or fills in part.

Those that it lacks are views over the schema `system`; the others have a leaf of their own.

SELECT column_default FROM information_schema.columns
->  SELECT column_default FROM "information_schema#columns" AS columns
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from planner.tables.state.catalog import CATALOG, SCHEMA

INFORMATION_SCHEMA: Final = "information_schema"
COMPLETED: Final[Mapping[str, str]] = MappingProxyType(
    {name: f"{INFORMATION_SCHEMA}#{name}" for name in ("columns", "tables")}
)
"""Name of a table that is completed -> name of its leaf."""


@dataclass(frozen=True, slots=True)
class InformationView:
    """A table of information_schema that DataFusion does not have.

    Attributes:
        select: its rows, from the system table `constraints`.
        schema: its columns.
    """

    select: str
    schema: pa.Schema


def _texts(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string()) for name in names]


_CONSTRAINT: Final = _texts("constraint_catalog", "constraint_schema", "constraint_name")
_TABLE: Final = _texts("table_catalog", "table_schema", "table_name")
_TABLE_CONSTRAINTS: Final = f"""
SELECT '{CATALOG}' AS constraint_catalog, '{SCHEMA}' AS constraint_schema, s.constraint_name,
  '{CATALOG}' AS table_catalog, '{SCHEMA}' AS table_schema, s.table_name, s.constraint_type,
  'NO' AS is_deferrable, 'NO' AS initially_deferred,
  CASE WHEN s.is_enforced THEN 'YES' ELSE 'NO' END AS enforced
FROM system.constraints AS s
"""  # noqa: S608 - constants
_CHECK_CONSTRAINTS: Final = f"""
SELECT '{CATALOG}' AS constraint_catalog, '{SCHEMA}' AS constraint_schema, s.constraint_name,
  s.expression AS check_clause
FROM system.constraints AS s WHERE s.constraint_type = 'CHECK'
"""  # noqa: S608 - constants
_KEY_COLUMN_USAGE: Final = f"""
SELECT '{CATALOG}' AS constraint_catalog, '{SCHEMA}' AS constraint_schema, u.constraint_name,
  '{CATALOG}' AS table_catalog, '{SCHEMA}' AS table_schema, u.table_name, u.column_name, u.ordinal_position
FROM (
  SELECT s.constraint_name, s.table_name, unnest(s.columns) AS column_name,
    unnest(range(1, CAST(cardinality(s.columns) AS BIGINT) + 1)) AS ordinal_position
  FROM system.constraints AS s WHERE s.constraint_type <> 'CHECK'
) AS u
"""  # noqa: S608 - constants
ADDED_TABLES: Final[Mapping[str, InformationView]] = MappingProxyType(
    {
        "table_constraints": InformationView(
            _TABLE_CONSTRAINTS.strip(),
            pa.schema(
                _CONSTRAINT
                + _TABLE
                + _texts("constraint_type", "is_deferrable", "initially_deferred", "enforced")
            ),
        ),
        "check_constraints": InformationView(
            _CHECK_CONSTRAINTS.strip(), pa.schema(_CONSTRAINT + _texts("check_clause"))
        ),
        "key_column_usage": InformationView(
            _KEY_COLUMN_USAGE.strip(),
            pa.schema(_CONSTRAINT + _TABLE + [*_texts("column_name"), ("ordinal_position", pa.int64())]),
        ),
    }
)
"""Name -> table that DataFusion does not have."""
