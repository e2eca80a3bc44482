"""Column metadata as Flight SQL defines it: `ARROW:FLIGHT:SQL:*` in the metadata of Arrow fields.

It goes on the columns of GetTables, and on every result: drivers fill a result's own description from it
(JDBC's ResultSetMetaData, with the precision and scale of decimals). A result's columns have no table, since
an expression has none.
"""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from gateway.sql_types import precision_and_scale, sql_type, type_name

_MAX_DESCRIBED = 1024
_PREFIX = "ARROW:FLIGHT:SQL:"
# In the order of preference.
_REMARKS = (b"remarks", b"comment", b"description")

# By digest: a plan itself may hold the rows of an INSERT, and most plans have the schemas of others.
_described: dict[bytes, tuple[pa.Schema, pa.Schema, bytes]] = {}


class Statement(Protocol):
    """A checked statement."""

    @property
    def schema(self) -> pa.Schema:
        """Of its result."""

    @property
    def digest(self) -> bytes:
        """Differs where `schema` does."""


def described(plan: Statement) -> pa.Schema:
    """Returns the schema of a statement's result with the metadata that follows from its types."""
    return _description(plan)[0]


def described_message(plan: Statement) -> bytes:
    """Returns the same as an encapsulated IPC message."""
    return _description(plan)[1]


def _description(plan: Statement) -> tuple[pa.Schema, bytes]:
    found = _described.get(plan.digest)
    # A digest is short: another schema may have the same one.
    if found is None or not found[0].equals(plan.schema, check_metadata=True):
        schema = pa.schema([field.with_metadata(_of_type(field.type)) for field in plan.schema])
        found = plan.schema, schema, bytes(schema.serialize())
        if len(_described) >= _MAX_DESCRIBED:
            _described.clear()
        _described[plan.digest] = found
    return found[1], found[2]


def described_table(
    schema: pa.Schema,
    catalog: str,
    db_schema: str,
    table: str,
    remarks: Mapping[str, str],
    *,
    is_read_only: bool = True,
) -> pa.Schema:
    """Returns the schema of a table with all metadata that its columns have.

    Args:
        schema: columns of the table.
        catalog: that the table is in.
        db_schema: that the table is in.
        table: its name.
        remarks: column -> what somebody noted about it.
        is_read_only: whether the caller can't change its rows.
    """
    where = {
        f"{_PREFIX}CATALOG_NAME": catalog,
        # The protocol's text says DB_SCHEMA_NAME, all drivers read SCHEMA_NAME.
        f"{_PREFIX}SCHEMA_NAME": db_schema,
        f"{_PREFIX}DB_SCHEMA_NAME": db_schema,
        f"{_PREFIX}TABLE_NAME": table,
        f"{_PREFIX}IS_READ_ONLY": "1" if is_read_only else "0",
    }
    fields = []
    for field in schema:
        metadata = {**_of_type(field.type), **where}
        if field.name in remarks:
            metadata[f"{_PREFIX}REMARKS"] = remarks[field.name]
        fields.append(field.with_metadata(metadata))
    return pa.schema(fields)


def remarks_of(schema: pa.Schema) -> dict[str, str]:
    """Returns column -> remark, for the columns whose stored metadata has one under a usual name."""
    found = {}
    for field in schema:
        stored = {key.lower(): value for key, value in (field.metadata or {}).items()}
        remark = next((stored[key] for key in _REMARKS if key in stored), None)
        if remark is not None:
            found[field.name] = remark.decode(errors="replace")
    return found


def _of_type(data_type: pa.DataType) -> dict[str, str]:
    kind = sql_type(data_type)
    precision, scale = precision_and_scale(data_type)
    metadata = {
        f"{_PREFIX}TYPE_NAME": type_name(data_type),
        f"{_PREFIX}IS_AUTO_INCREMENT": "0",
        f"{_PREFIX}IS_CASE_SENSITIVE": "1" if kind is not None and kind.is_text else "0",
        f"{_PREFIX}IS_READ_ONLY": "1",
        f"{_PREFIX}IS_SEARCHABLE": "1",
    }
    if precision is not None:
        metadata[f"{_PREFIX}PRECISION"] = str(precision)
    if scale is not None:
        metadata[f"{_PREFIX}SCALE"] = str(scale)
    return metadata
