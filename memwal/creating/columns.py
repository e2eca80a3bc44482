"""The primary key and the NOT NULL columns in the schema of a table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.types as kinds
from lance.blob import BlobType

from lance_gateway.memwal.columns.blobs import build_blob_field, is_blob
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, UnsupportedError

PRIMARY_KEY: Final = b"lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION: Final = b"lance-schema:unenforced-primary-key:position"
NOT_NULL: Final = b"lance-gateway:not-null"
"""Marks a column in which NULL is refused, although it is stored as one that takes it.

Lance deletes by writing rows with nothing but their key, and only where all other columns are nullable.
"""
TABLE_ID: Final = b"lance-gateway:table-id"
"""In a schema's metadata: differs from that of every other table, also of one dropped under the same name."""
KEY_TYPES: Final = "integers of any width, BOOLEAN, text and binary"
_FIELD_ID: Final = b"lance:field_id"
_RESERVED: Final = frozenset(
    {"_tombstone", "_rowid", "_rowaddr", "_gen", "_region", "_distance", "_score"}
    | {"_row_created_at_version", "_row_last_updated_at_version"}
)

_KEY_KINDS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    kinds.is_integer,
    kinds.is_boolean,
    kinds.is_string,
    kinds.is_large_string,
    kinds.is_binary,
    kinds.is_large_binary,
)
_STORED_KINDS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    *_KEY_KINDS,
    kinds.is_floating,
    kinds.is_decimal128,
    kinds.is_decimal256,
    kinds.is_date,
    kinds.is_time,
    kinds.is_timestamp,
    kinds.is_duration,
    kinds.is_fixed_size_binary,
    kinds.is_null,
)
_STORED_EXTENSIONS: Final = frozenset({"arrow.bool8", "arrow.fixed_shape_tensor", "arrow.json", "arrow.uuid"})
"""Extension types that Lance stores as such; of others, it stores the values."""


def build_stored_schema(
    schema: pa.Schema, primary_key: Sequence[str] = (), not_null: Sequence[str] = ()
) -> pa.Schema:
    """Build the schema under which a new table is stored.

    Args:
        schema: names, types and metadata; columns that are not nullable there are NOT NULL.
        primary_key: columns in key order.
        not_null: more columns in which NULL is refused.

    Raises:
        InvalidInputError: no columns, two of one name, or a name that is taken.
        NotFoundError: a key column that is none of the columns.
        UnsupportedError: a type that can't be stored, or be a key.
    """
    if not len(schema):
        msg = "a table needs at least one column"
        raise InvalidInputError(msg)
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            msg = f"column {name!r} is specified more than once"
            raise InvalidInputError(msg)
        if "." in name:
            msg = f"{name!r} can't be the name of a column: Lance takes the parts of it as fields of structs"
            raise InvalidInputError(f"{msg}; write it without the dot")
        if "`" in name:
            msg = f"{name!r} can't be the name of a column: Lance can't read columns with a backtick there"
            raise InvalidInputError(f"{msg}; write it without")
        if not name or name in _RESERVED:
            taken = ", ".join(sorted(_RESERVED))
            msg = f"{name!r} can't be the name of a column: {taken} have a meaning of their own"
            raise InvalidInputError(msg)
        seen.add(name)
    if len(set(primary_key)) != len(primary_key):
        msg = f"the primary key ({', '.join(primary_key)}) names a column twice"
        raise InvalidInputError(msg)
    for name in (*primary_key, *not_null):
        if name not in seen:
            msg = f"column {name!r} of the primary key is none of {', '.join(schema.names)}"
            raise NotFoundError(msg)
    fields = [
        _declare_field(field, tuple(primary_key), is_not_null=field.name in not_null or not field.nullable)
        for field in schema
    ]
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key != TABLE_ID}
    return pa.schema(fields, {**metadata, TABLE_ID: uuid.uuid4().hex.encode()})


def declare_key(schema: pa.Schema, primary_key: Sequence[str]) -> tuple[pa.Field, ...]:
    """Return columns of a stored schema as they are stored when they are its primary key, in key order.

    Raises:
        InvalidInputError: a column is named twice.
        UnsupportedError: a type that can't be a key.
    """
    key = tuple(primary_key)
    if len(set(key)) != len(key):
        msg = f"the primary key ({', '.join(key)}) names a column twice"
        raise InvalidInputError(msg)
    return tuple(_declare_field(schema.field(name), key, is_not_null=True) for name in key)


def list_key_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Return the primary key columns of a stored schema, in key order."""
    marked = []
    for position, field in enumerate(schema):
        metadata = field.metadata or {}
        if metadata.get(PRIMARY_KEY, b"").lower() in (b"true", b"1") or PRIMARY_KEY_POSITION in metadata:
            marked.append((int(metadata.get(PRIMARY_KEY_POSITION, position)), position, field.name))
    return tuple(name for _, _, name in sorted(marked))


def list_not_null_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Return the NOT NULL columns of a stored schema, in the schema's order."""
    key = list_key_columns(schema)
    return tuple(
        field.name
        for field in schema
        if not field.nullable or field.name in key or (field.metadata or {}).get(NOT_NULL) == b"true"
    )


def storage_type(name: str, kind: pa.DataType) -> pa.DataType:
    """Return the type under which values of a column are stored.

    Raises:
        UnsupportedError: Lance does not store values of this type.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return _convert_extension(name, kind)
    if kinds.is_dictionary(kind):
        return storage_type(name, kind.value_type)
    if kinds.is_map(kind):
        # Lance stores no maps whose keys are said to be sorted.
        return pa.map_(storage_type(name, kind.key_type), storage_type(name, kind.item_type))
    if kinds.is_string_view(kind):
        return pa.string()
    if kinds.is_binary_view(kind):
        return pa.binary()
    if kinds.is_list(kind) or kinds.is_list_view(kind):
        return pa.list_(_convert_child(name, kind.value_field))
    if kinds.is_large_list(kind) or kinds.is_large_list_view(kind):
        return pa.large_list(_convert_child(name, kind.value_field))
    if kinds.is_fixed_size_list(kind):
        if not (kinds.is_floating(kind.value_type) or kinds.is_integer(kind.value_type)):
            msg = f"column {name!r}: a list of fixed size holds numbers, not {kind.value_type}: use a list"
            raise UnsupportedError(msg)
        return pa.list_(pa.field("item", kind.value_type), kind.list_size)
    if kinds.is_struct(kind):
        return pa.struct([_convert_child(name, kind.field(at)) for at in range(kind.num_fields)])
    if any(is_kind(kind) for is_kind in _STORED_KINDS):
        return kind
    msg = f"column {name!r} has type {kind}, which Lance tables can't store: cast it to another type"
    raise UnsupportedError(msg)


def _convert_extension(name: str, kind: pa.BaseExtensionType) -> pa.DataType:
    if isinstance(kind, BlobType):
        msg = (
            f"column {name!r} has type {kind.extension_name}: send its values as large_binary, with "
            "lance-encoding:blob in the metadata of the field"
        )
        raise UnsupportedError(msg)
    return kind if kind.extension_name in _STORED_EXTENSIONS else storage_type(name, kind.storage_type)


def _convert_child(name: str, field: pa.Field) -> pa.Field:
    if is_blob(field) and not isinstance(field.type, BlobType):
        return build_blob_field(pa.field(field.name, field.type, field.nullable))
    return pa.field(field.name, storage_type(name, field.type), field.nullable)


def _declare_field(field: pa.Field, primary_key: tuple[str, ...], *, is_not_null: bool) -> pa.Field:
    ours = (PRIMARY_KEY, PRIMARY_KEY_POSITION, NOT_NULL, _FIELD_ID)
    metadata = {key: value for key, value in (field.metadata or {}).items() if key not in ours}
    mark = {NOT_NULL: b"true"} if is_not_null else {}
    if is_blob(field) and not isinstance(field.type, BlobType) and field.name not in primary_key:
        return build_blob_field(pa.field(field.name, field.type, metadata=metadata | mark))
    kind = storage_type(field.name, field.type)
    if field.name not in primary_key:
        return pa.field(field.name, kind, metadata=metadata | mark)
    if not any(is_kind(kind) for is_kind in _KEY_KINDS):
        msg = (
            f"column {field.name!r} has type {kind}, which can't be part of a primary key: {KEY_TYPES} can; "
            "keep it as one of them, such as a date as text"
        )
        raise UnsupportedError(msg)
    position = str(primary_key.index(field.name) + 1).encode()
    marks = {PRIMARY_KEY: b"true", PRIMARY_KEY_POSITION: position}
    return pa.field(field.name, kind, nullable=False, metadata=metadata | marks)
