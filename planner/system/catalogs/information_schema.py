"""The tables of information_schema, as the SQL standard and PostgreSQL have them.

Those about functions and settings are DataFusion's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from lance_gateway.memwal.rules import Identity
from lance_gateway.memwal.storage.table_names import CATALOG
from lance_gateway.planner.system.catalogs.catalog_table import Rows, RowsOfEach, make_tables
from lance_gateway.planner.system.catalogs.columns import INFORMATION_COLUMNS
from lance_gateway.planner.system.catalogs.relations import INFORMATION_SCHEMA, Kind, Relation, Relations
from lance_gateway.planner.system.catalogs.sql_types import ColumnType

_Row = dict[str, Any]
_LONGEST_TEXT: Final = 2**31 - 1
"""What other databases say where a length counts characters, and so not bytes."""


def _place(relation: Relation, prefix: str = "table") -> _Row:
    return {
        f"{prefix}_catalog": CATALOG,
        f"{prefix}_schema": relation.schema,
        f"{prefix}_name": relation.name,
    }


def _list_schemata(relations: Relations) -> Iterator[_Row]:
    for name in relations.schemas:
        if name != "pg_catalog":
            yield {"catalog_name": CATALOG, "schema_name": name}


def _list_tables(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        yield {
            **_place(one),
            "table_type": "BASE TABLE" if one.kind is Kind.TABLE else "VIEW",
            "is_insertable_into": _format_flag(one.is_writable),
            "is_typed": "NO",
        }


def _describe_columns(relation: Relation) -> Iterator[_Row]:
    for number, field in enumerate(relation.columns, start=1):
        kind, identity = relation.types[field.name], relation.identities.get(field.name)
        yield {
            **_place(relation),
            "column_name": field.name,
            "ordinal_position": number,
            "column_default": relation.defaults.get(field.name),
            "is_nullable": _format_flag(field.nullable),
            **_describe_type(kind),
            "udt_catalog": CATALOG,
            "udt_schema": "pg_catalog",
            "udt_name": kind.udt_name,
            "dtd_identifier": str(number),
            "is_self_referencing": "NO",
            "is_identity": _format_flag(identity is not None),
            **({} if identity is None else _describe_identity(identity)),
            "identity_cycle": "NO",
            "is_generated": "NEVER",
            "is_updatable": _format_flag(relation.is_writable),
        }


def _describe_identity(identity: Identity) -> _Row:
    return {
        "identity_generation": "ALWAYS" if identity.always else "BY DEFAULT",
        "identity_start": str(identity.start),
        "identity_increment": str(identity.increment),
        "identity_minimum": str(identity.start),
    }


_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {"int2": 16, "int4": 32, "int8": 64, "float4": 24, "float8": 53}
)


def _describe_type(kind: ColumnType) -> _Row:
    name = kind.kind.name
    if kind.is_array:
        return {"data_type": "ARRAY"}
    row: _Row = {"data_type": kind.kind.sql_name}
    if name in _BITS:
        is_whole = name.startswith("int")
        row |= {"numeric_precision": _BITS[name], "numeric_precision_radix": 2}
        row |= {"numeric_scale": 0} if is_whole else {}
    elif name == "numeric":
        row |= {
            "numeric_precision": kind.precision,
            "numeric_precision_radix": 10,
            "numeric_scale": kind.scale,
        }
    elif name == "bytea":
        row["character_octet_length"] = kind.length
    elif kind.kind.category == "S":
        row |= {"character_maximum_length": kind.length, "character_octet_length": _LONGEST_TEXT}
    elif kind.kind.category in "DT":
        row["datetime_precision"] = 0 if name == "date" else 6
    return row


def _list_views(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        if one.kind is Kind.VIEW and not one.is_own:
            yield {
                **_place(one),
                "view_definition": one.definition,
                "definition": one.definition,
                "check_option": "NONE",
                **dict.fromkeys(
                    (
                        "is_updatable",
                        "is_insertable_into",
                        "is_trigger_updatable",
                        "is_trigger_deletable",
                        "is_trigger_insertable_into",
                    ),
                    "NO",
                ),
            }


def _name(relation: Relation, name: str) -> _Row:
    return {"constraint_catalog": CATALOG, "constraint_schema": relation.schema, "constraint_name": name}


def _list_table_constraints(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        for rule in relations.list_rules(one):
            yield {
                **_name(one, rule.name),
                **_place(one),
                "constraint_type": rule.type,
                "is_deferrable": "NO",
                "initially_deferred": "NO",
                "enforced": _format_flag(rule.is_enforced),
            }


def _list_check_constraints(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        for rule in relations.list_rules(one):
            if rule.letter == "c":
                yield {**_name(one, rule.name), "check_clause": rule.expression}


def _list_key_columns(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        for rule in relations.list_rules(one):
            for number, column in enumerate(rule.columns if rule.letter != "c" else (), start=1):
                yield {
                    **_name(one, rule.name),
                    **_place(one),
                    "column_name": column,
                    "ordinal_position": number,
                    "position_in_unique_constraint": number if rule.letter == "f" else None,
                }


def _list_constraint_columns(relations: Relations) -> Iterator[_Row]:
    """Yield the columns that constraints are about: of a foreign key, those that it refers to."""
    for one in relations.all:
        for rule in relations.list_rules(one):
            columns = rule.target_columns if rule.letter == "f" else rule.columns
            for column in columns:
                yield {**_place(rule.target or one), "column_name": column, **_name(one, rule.name)}


def _list_constraint_tables(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        for rule in relations.list_rules(one):
            yield {**_place(rule.target or one), **_name(one, rule.name)}


def _list_referential(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        for rule in relations.list_rules(one):
            if rule.target is None:
                continue
            keys = [
                other for other in relations.list_rules(rule.target) if other.columns == rule.target_columns
            ]
            yield {
                **_name(one, rule.name),
                "unique_constraint_catalog": CATALOG,
                "unique_constraint_schema": rule.target.schema,
                "unique_constraint_name": keys[0].name if keys else None,
                "match_option": "NONE",
                "update_rule": "NO ACTION",
                "delete_rule": "NO ACTION",
            }


def _list_privileges(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        for privilege in ("SELECT", *(("INSERT", "UPDATE", "DELETE") if one.is_writable else ())):
            yield {
                "grantee": relations.user,
                **_place(one),
                "privilege_type": privilege,
                "is_grantable": "NO",
                "with_hierarchy": "NO",
            }


def _list_column_privileges(relations: Relations) -> Iterator[_Row]:
    columns = {(one.schema, one.name): one.columns.names for one in relations.all}
    for row in _list_privileges(relations):
        if row["privilege_type"] != "DELETE":
            for name in columns[row["table_schema"], row["table_name"]]:
                yield {**row, "column_name": name}


def _list_roles(relations: Relations) -> Iterator[_Row]:
    yield {"role_name": relations.user}


def _list_catalog_name(_relations: Relations) -> Iterator[_Row]:
    yield {"catalog_name": CATALOG}


def _format_flag(value: object) -> str:
    return "YES" if value else "NO"


_ROWS: Final[Mapping[str, Rows | RowsOfEach]] = MappingProxyType(
    {
        "information_schema_catalog_name": _list_catalog_name,
        "schemata": _list_schemata,
        "tables": _list_tables,
        "columns": RowsOfEach(_describe_columns),
        "views": _list_views,
        "table_constraints": _list_table_constraints,
        "check_constraints": _list_check_constraints,
        "key_column_usage": _list_key_columns,
        "constraint_column_usage": _list_constraint_columns,
        "constraint_table_usage": _list_constraint_tables,
        "referential_constraints": _list_referential,
        "table_privileges": _list_privileges,
        "role_table_grants": _list_privileges,
        "column_privileges": _list_column_privileges,
        "enabled_roles": _list_roles,
    }
)
INFORMATION_TABLES: Final = make_tables(INFORMATION_SCHEMA, INFORMATION_COLUMNS, _ROWS)
"""Name -> table."""
DATAFUSION_TABLES: Final = ("df_settings", "parameters", "routines")
"""Tables that DataFusion fills."""
