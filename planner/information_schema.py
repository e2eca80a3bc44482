"""What DataFusion's information_schema consists of: tables that describe the tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from planner.plain_types import plain_schema

INFORMATION_SCHEMA = "information_schema"


@cache
def information_schema_tables() -> Mapping[str, pa.Schema]:
    """Table name -> its columns, by name."""
    context = SessionContext(SessionConfig().with_information_schema(enabled=True))
    listed = context.sql(
        f"SELECT table_name FROM {INFORMATION_SCHEMA}.tables "  # noqa: S608 - a constant
        f"WHERE table_schema = '{INFORMATION_SCHEMA}' ORDER BY table_name"
    )
    names = [name for batch in listed.collect() for name in batch.column(0).to_pylist()]
    schemas = {name: context.sql(f"SELECT * FROM {INFORMATION_SCHEMA}.{name}").schema() for name in names}  # noqa: S608 - its own names
    return MappingProxyType({name: plain_schema(schema) for name, schema in schemas.items()})
