"""The tables of pg_catalog that tools of PostgreSQL read.

Oids are computed from names, so they are the same in all tables, processes and statements. Objects that do
not exist here (sequences, enums, triggers, ..) have tables without rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from lance_gateway.memwal.base.comments import read_column_comment
from lance_gateway.memwal.storage.table_names import CATALOG
from lance_gateway.planner.system.catalogs.catalog_table import Rows, make_tables
from lance_gateway.planner.system.catalogs.columns import PG_COLUMNS
from lance_gateway.planner.system.catalogs.fixed_settings import list_settings
from lance_gateway.planner.system.catalogs.relations import (
    PG_CATALOG,
    Index,
    Kind,
    Relation,
    Relations,
    Rule,
    make_number,
    quote_plainly,
)
from lance_gateway.planner.system.catalogs.sql_types import TYPES, PgType

_Row = dict[str, Any]
CLASS_OIDS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "pg_attrdef": 2604,
        "pg_attribute": 1249,
        "pg_authid": 1260,
        "pg_class": 1259,
        "pg_constraint": 2606,
        "pg_database": 1262,
        "pg_description": 2609,
        "pg_index": 2610,
        "pg_namespace": 2615,
        "pg_proc": 1255,
        "pg_type": 1247,
    }
)
"""Name -> PostgreSQL's own oid of tables of pg_catalog, by which descriptions name their kind."""
_PG_CATALOG_OID: Final = 11
_OWNER_OID: Final = 10
_HEAP_OID: Final = 2
_BTREE_OID: Final = 403
_COLLATION_OID: Final = 100


def number_schema(name: str) -> int:
    """Return the oid of a schema."""
    return _PG_CATALOG_OID if name == PG_CATALOG else make_number(f"schema {name}")


def number_rule(relation: Relation, rule: Rule) -> int:
    """Return the oid of a constraint."""
    return make_number(f"constraint {relation.schema} {relation.name} {rule.name}")


def number_default(relation: Relation, column: str) -> int:
    """Return the oid of a default."""
    return make_number(f"default {relation.schema} {relation.name} {column}")


def _list_namespaces(relations: Relations) -> Iterator[_Row]:
    for name in relations.schemas:
        yield {"oid": number_schema(name), "nspname": name, "nspowner": _OWNER_OID}


def _list_classes(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        yield {
            **_class(relations.number(one), one.name, one.schema, one.kind.value, len(one.columns)),
            "relam": _HEAP_OID if one.kind is Kind.TABLE else 0,
            "relhasindex": bool(one.indexes),
            "relchecks": sum(rule.letter == "c" for rule in relations.list_rules(one)),
            "relhasrules": one.kind is Kind.VIEW,
        }
        for index in one.indexes:
            number = relations.numbers[one.schema, one.name, index.name]
            yield {**_class(number, index.name, one.schema, "i", len(index.columns)), "relam": _BTREE_OID}


def _class(number: int, name: str, schema: str, kind: str, columns: int) -> _Row:
    return {
        "oid": number,
        "relname": name,
        "relnamespace": number_schema(schema),
        "reltype": 0,
        "reloftype": 0,
        "relowner": _OWNER_OID,
        "relam": 0,
        "relfilenode": 0,
        "reltablespace": 0,
        "relpages": 0,
        "reltuples": -1.0,
        "relallvisible": 0,
        "reltoastrelid": 0,
        "relhasindex": False,
        "relisshared": False,
        "relpersistence": "p",
        "relkind": kind,
        "relnatts": columns,
        "relchecks": 0,
        "relhasrules": False,
        "relhastriggers": False,
        "relhassubclass": False,
        "relrowsecurity": False,
        "relforcerowsecurity": False,
        "relispopulated": True,
        "relreplident": "d",
        "relispartition": False,
        "relrewrite": 0,
        "relfrozenxid": 0,
        "relminmxid": 0,
    }


def _list_attributes(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        number = relations.number(one)
        for place, field in enumerate(one.columns, start=1):
            has_default = field.name in one.defaults
            identity = one.identities.get(field.name)
            yield {
                **_attribute(
                    one, number, place, field.name, not_null=not field.nullable, has_default=has_default
                ),
                "attidentity": "" if identity is None else "a" if identity.always else "d",
            }
        for index in one.indexes:
            own = relations.numbers[one.schema, one.name, index.name]
            for place, column in enumerate(index.columns, start=1):
                yield _attribute(one, own, place, column, not_null=False, has_default=False)


def _attribute(
    relation: Relation, number: int, place: int, column: str, *, not_null: bool, has_default: bool
) -> _Row:
    kind = relation.types[column]
    is_text = kind.kind.category == "S" and not kind.is_array
    return {
        "attrelid": number,
        "attname": column,
        "atttypid": kind.oid,
        "attlen": -1 if kind.is_array else kind.kind.size,
        "attnum": place,
        "attcacheoff": -1,
        "atttypmod": kind.modifier,
        "attndims": int(kind.is_array),
        "attbyval": 0 < kind.kind.size <= 8,
        "attalign": "i",
        "attstorage": "p" if kind.kind.size > 0 else "x",
        "attcompression": "",
        "attnotnull": not_null,
        "atthasdef": has_default,
        "atthasmissing": False,
        "attidentity": "",
        "attgenerated": "",
        "attisdropped": False,
        "attislocal": True,
        "attinhcount": 0,
        "attcollation": _COLLATION_OID if is_text else 0,
        "attstattarget": -1,
    }


def _list_defaults(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        for column, expression in one.defaults.items():
            yield {
                "oid": number_default(one, column),
                "adrelid": relations.number(one),
                "adnum": one.number(column),
                "adbin": expression,
            }


def _list_types(_relations: Relations) -> Iterator[_Row]:
    for one in TYPES.values():
        yield _type(one, one.oid, one.name, one.category, element=0, array=one.array)
        yield _type(one, one.array, f"_{one.name}", "A", element=one.oid, array=0)


def _type(kind: PgType, oid: int, name: str, category: str, *, element: int, array: int) -> _Row:
    return {
        "oid": oid,
        "typname": name,
        "typnamespace": _PG_CATALOG_OID,
        "typowner": _OWNER_OID,
        "typlen": -1 if element else kind.size,
        "typbyval": not element and 0 < kind.size <= 8,
        "typtype": "b",
        "typcategory": category,
        "typispreferred": name in {"text", "float8", "timestamptz", "bool", "oid", "interval"},
        "typisdefined": True,
        "typdelim": ",",
        "typrelid": 0,
        "typsubscript": "array_subscript_handler" if element else "-",
        "typelem": element,
        "typarray": array,
        "typinput": "array_in" if element else f"{name}in",
        "typoutput": "array_out" if element else f"{name}out",
        "typreceive": "array_recv" if element else f"{name}recv",
        "typsend": "array_send" if element else f"{name}send",
        "typmodin": "-",
        "typmodout": "-",
        "typanalyze": "-",
        "typalign": "i",
        "typstorage": "x" if element or kind.size < 0 else "p",
        "typnotnull": False,
        "typbasetype": 0,
        "typtypmod": -1,
        "typndims": 0,
        "typcollation": _COLLATION_OID if kind.category == "S" else 0,
    }


def _list_constraints(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        for rule in relations.list_rules(one):
            index = relations.numbers.get((one.schema, one.name, rule.name), 0) if rule.letter == "p" else 0
            target = rule.target
            yield {
                "oid": number_rule(one, rule),
                "conname": rule.name,
                "connamespace": number_schema(one.schema),
                "contype": rule.letter,
                "condeferrable": False,
                "condeferred": False,
                "convalidated": rule.is_enforced,
                "conrelid": relations.number(one),
                "contypid": 0,
                "conindid": index,
                "conparentid": 0,
                "confrelid": 0 if target is None else relations.number(target),
                "confupdtype": "" if target is None else "a",
                "confdeltype": "" if target is None else "a",
                "confmatchtype": "" if target is None else "s",
                "conislocal": True,
                "coninhcount": 0,
                "connoinherit": True,
                "conkey": [one.number(column) for column in rule.columns],
                "confkey": None
                if target is None
                else [target.number(column) for column in rule.target_columns],
                "conbin": rule.expression or None,
            }


def _list_indexes(relations: Relations) -> Iterator[_Row]:
    for one, index, number in _each_index(relations):
        count = len(index.columns)
        yield {
            "indexrelid": number,
            "indrelid": relations.number(one),
            "indnatts": count,
            "indnkeyatts": count,
            "indisunique": index.is_primary,
            "indnullsnotdistinct": False,
            "indisprimary": index.is_primary,
            "indisexclusion": False,
            "indimmediate": True,
            "indisclustered": False,
            "indisvalid": True,
            "indcheckxmin": False,
            "indisready": True,
            "indislive": True,
            "indisreplident": False,
            "indkey": [one.number(column) for column in index.columns],
            "indcollation": [0] * count,
            "indclass": [0] * count,
            "indoption": [0] * count,
        }


def _each_index(relations: Relations) -> Iterator[tuple[Relation, Index, int]]:
    for one in relations.all:
        for index in one.indexes:
            yield one, index, relations.numbers[one.schema, one.name, index.name]


def _list_descriptions(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        row = {"objoid": relations.number(one), "classoid": CLASS_OIDS["pg_class"]}
        if one.comment is not None:
            yield {**row, "objsubid": 0, "description": one.comment}
        for number, field in enumerate(one.columns, start=1):
            comment = read_column_comment(field)
            if comment is not None:
                yield {**row, "objsubid": number, "description": comment}


def _list_databases(_relations: Relations) -> Iterator[_Row]:
    yield {
        "oid": make_number(f"database {CATALOG}"),
        "datname": CATALOG,
        "datdba": _OWNER_OID,
        "encoding": 6,
        "datlocprovider": "c",
        "datistemplate": False,
        "datallowconn": True,
        "datconnlimit": -1,
        "dattablespace": 0,
        "datcollate": "C",
        "datctype": "C",
    }


def _list_roles(relations: Relations) -> Iterator[_Row]:
    yield {
        "oid": _OWNER_OID,
        "rolname": relations.user,
        "rolsuper": relations.catalog.access.is_admin,
        "rolinherit": True,
        "rolcreaterole": False,
        "rolcreatedb": False,
        "rolcanlogin": True,
        "rolreplication": False,
        "rolconnlimit": -1,
        "rolbypassrls": False,
        "usename": relations.user,
        "usesysid": _OWNER_OID,
        "usesuper": relations.catalog.access.is_admin,
    }


def _list_access_methods(_relations: Relations) -> Iterator[_Row]:
    yield {"oid": _HEAP_OID, "amname": "heap", "amtype": "t"}
    yield {"oid": _BTREE_OID, "amname": "btree", "amtype": "i"}


def _list_pg_tables(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        if one.kind is Kind.TABLE:
            yield {
                "schemaname": one.schema,
                "tablename": one.name,
                "tableowner": relations.user,
                "hasindexes": bool(one.indexes),
                "hasrules": False,
                "hastriggers": False,
                "rowsecurity": False,
            }


def _list_pg_views(relations: Relations) -> Iterator[_Row]:
    for one in relations.all:
        if one.kind is Kind.VIEW:
            yield {
                "schemaname": one.schema,
                "viewname": one.name,
                "viewowner": relations.user,
                "definition": one.definition,
            }


def _list_pg_indexes(relations: Relations) -> Iterator[_Row]:
    for one, index, _ in _each_index(relations):
        yield {
            "schemaname": one.schema,
            "tablename": one.name,
            "indexname": index.name,
            "indexdef": define_index(one, index),
        }


def define_index(relation: Relation, index: Index) -> str:
    """Return the statement that PostgreSQL would show for an index."""
    names = ", ".join(map(quote_plainly, index.columns))
    unique = "UNIQUE " if index.is_primary else ""
    place = f"{quote_plainly(relation.schema)}.{quote_plainly(relation.name)}"
    return f"CREATE {unique}INDEX {quote_plainly(index.name)} ON {place} USING btree ({names})"


_ROWS: Final[Mapping[str, Rows]] = MappingProxyType(
    {
        "pg_namespace": _list_namespaces,
        "pg_class": _list_classes,
        "pg_attribute": _list_attributes,
        "pg_attrdef": _list_defaults,
        "pg_type": _list_types,
        "pg_constraint": _list_constraints,
        "pg_index": _list_indexes,
        "pg_description": _list_descriptions,
        "pg_database": _list_databases,
        "pg_roles": _list_roles,
        "pg_user": _list_roles,
        "pg_am": _list_access_methods,
        "pg_tables": _list_pg_tables,
        "pg_views": _list_pg_views,
        "pg_indexes": _list_pg_indexes,
        "pg_settings": list_settings,
    }
)
PG_TABLES: Final = make_tables(PG_CATALOG, PG_COLUMNS, _ROWS)
"""Name -> table."""
ALWAYS_EMPTY: Final = PG_TABLES.keys() - _ROWS.keys()
"""Names of tables without rows, whatever there is."""
