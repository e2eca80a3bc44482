"""`system.definitions`: statements that make tables like those that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from lance_gateway.memwal.base.comments import read_column_comment, read_table_comment
from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.creating import list_not_null_columns
from lance_gateway.memwal.creating.key_index import list_default_columns, list_wanted_columns
from lance_gateway.memwal.rules import IS_JSON, IS_UUID, list_defaults, list_identities, list_lengths
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.sql.text.tokens import fold, quote
from lance_gateway.planner.system.listing import TABLE_FIELDS, OfTables
from lance_gateway.planner.tables.sources.base_table import BaseTable

_UNSHARDED: Final = "unsharded"
_DIGITS: Final = MappingProxyType({"s": 0, "ms": 3, "us": 6, "ns": 9})
_NAMES: Final[Mapping[pa.DataType, str]] = MappingProxyType(
    {
        pa.bool_(): "BOOLEAN",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INT",
        pa.int64(): "BIGINT",
        pa.uint8(): "UTINYINT",
        pa.uint16(): "USMALLINT",
        pa.uint32(): "UINTEGER",
        pa.uint64(): "UBIGINT",
        pa.float16(): "HALF",
        pa.float32(): "REAL",
        pa.float64(): "DOUBLE",
        pa.string(): "TEXT",
        pa.large_string(): "LARGE_STRING",
        pa.binary(): "BYTEA",
        pa.large_binary(): "LARGE_BINARY",
        pa.date32(): "DATE",
        pa.duration("us"): "DURATION",
    }
)
_WRITERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], str]], ...]] = (
    (kinds.is_decimal128, lambda kind: f"DECIMAL({kind.precision}, {kind.scale})"),
    (kinds.is_fixed_size_binary, lambda kind: f"BINARY({kind.byte_width})"),
    (kinds.is_time, lambda kind: f"TIME({_DIGITS[kind.unit]})"),
    (kinds.is_timestamp, lambda kind: f"TIMESTAMP{'TZ' if kind.tz else ''}({_DIGITS[kind.unit]})"),
    (kinds.is_fixed_size_list, lambda kind: f"{format_sql_type(kind.value_type)}[{kind.list_size}]"),
    (kinds.is_list, lambda kind: f"{format_sql_type(kind.value_type)}[]"),
    (kinds.is_map, lambda kind: f"MAP<{format_sql_type(kind.key_type)}, {format_sql_type(kind.item_type)}>"),
    (kinds.is_struct, lambda kind: f"STRUCT<{', '.join(map(_format_field_type, kind))}>"),
)


def format_sql_type(kind: pa.DataType) -> str:
    """Return the type of a column as CREATE TABLE takes it; Arrow's name of a type that it does not take."""
    named = _NAMES.get(kind)
    if named is not None:
        return named
    return next((write(kind) for is_kind, write in _WRITERS if is_kind(kind)), str(kind))


def _format_field_type(field: pa.Field) -> str:
    return f"{quote(field.name)} {format_sql_type(field.type)}"


def format_region_spec(spec: RegionSpec, names: Mapping[int, str]) -> str:
    """Format a region spec as the value of the option region_by.

    Args:
        spec: region spec of a table.
        names: Lance field id -> column.
    """
    return ", ".join(_format_region_field(field, names) for field in spec.fields) or _UNSHARDED


def _format_region_field(field: RegionField, names: Mapping[int, str]) -> str:
    columns = [_format_name(names.get(source, f"field {source}")) for source in field.source_ids]
    if field.expression is not None:
        return f"expression({', '.join([_literal(field.expression), *columns])})"
    if not columns:
        return str(field.transform)
    return f"{field.transform}({', '.join([*columns, *field.parameters.values()])})"


def _format_name(name: str) -> str:
    return name if name.isidentifier() and name == fold(name) else quote(name)


def list_options(base: BaseTable) -> dict[str, str]:
    """Return the options of a table that differ from those that it has by default."""
    options = {"stable_row_ids": "true"} if base.dataset.has_stable_row_ids else {}
    wanted = list_wanted_columns(base.dataset)
    if wanted != list_default_columns(base.dataset.schema):
        options["key_index"] = ", ".join(map(quote, wanted)) or "false"
    details = base.details
    if details is None:
        return {**options, "memwal": "false"}
    if details.region_specs:
        region_by = format_region_spec(details.region_specs[-1], base.field_names)
        if region_by != _UNSHARDED:
            options["region_by"] = region_by
    options |= details.writer_config_defaults
    if not details.maintain_all_indexes:
        options["maintained_indexes"] = ", ".join(map(quote, details.maintained_indexes))
    sources = {at for spec in details.region_specs for field in spec.fields for at in field.source_ids}
    if base.primary_key and not {base.field_names.get(at) for at in sources} <= set(base.primary_key):
        options["keys_never_move"] = "true"
    return options


class Definitions(OfTables):
    """One row per table: the CREATE TABLE of one like it.

    Options and constraints may name what is hidden, so they are told to those who see all of a table.
    """

    name = "definitions"
    schema = pa.schema([*TABLE_FIELDS, ("definition", pa.string())])

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        yield {"definition": _define_table(name, visible.table(name))}


def _define_table(name: TableName, table: SecuredTable) -> str:
    parts = list(_define_columns(table.declared_schema))
    if table.primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quote, table.primary_key))})")
    endings: list[str] = []
    if table.access.is_unrestricted:
        parts += [f"CONSTRAINT {quote(one.name)} {one.definition}" for one in table.base.constraints]
        options = list_options(table.base)
        if options:
            endings.append(f"WITH ({', '.join(f'{key} = {_literal(one)}' for key, one in options.items())})")
        comment = read_table_comment(table.base.dataset)
        if comment is not None:
            endings.append(f"COMMENT {_literal(comment)}")
    body = ",\n    ".join(parts)
    return " ".join([f"CREATE TABLE {name.sql} (\n    {body}\n)", *endings])


def _define_columns(schema: pa.Schema) -> Iterator[str]:
    required, defaults, lengths = list_not_null_columns(schema), list_defaults(schema), list_lengths(schema)
    identities = list_identities(schema)
    for field in schema:
        kind = format_sql_type(field.type)
        if field.name in lengths:
            kind = f"{'VARBINARY' if kind == 'BYTEA' else 'VARCHAR'}({lengths[field.name]})"
        elif (field.metadata or {}).get(IS_UUID) == b"true":
            kind = "UUID"
        elif (field.metadata or {}).get(IS_JSON) == b"true":
            kind = "JSON"
        default, comment = defaults.get(field.name), read_column_comment(field)
        words: Sequence[str] = (
            quote(field.name),
            kind,
            "NOT NULL" if field.name in required else "",
            identities[field.name].definition if field.name in identities else "",
            "" if default is None else f"DEFAULT {default.expression}",
            "" if comment is None else f"COMMENT {_literal(comment)}",
        )
        yield " ".join(word for word in words if word)


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
