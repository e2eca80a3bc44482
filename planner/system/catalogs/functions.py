"""Functions of pg_catalog, over what a principal sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from datafusion import ScalarUDF, SessionContext, udf

from lance_gateway.memwal.base.comments import read_column_comment
from lance_gateway.planner.sql.text.tokens import fold
from lance_gateway.planner.system.catalogs.fixed_settings import find_fixed_setting
from lance_gateway.planner.system.catalogs.pg_catalog import (
    CLASS_OIDS,
    define_index,
    number_rule,
    number_schema,
)
from lance_gateway.planner.system.catalogs.relations import (
    PG_CATALOG,
    Relation,
    Relations,
    quote_plainly,
)
from lance_gateway.planner.system.catalogs.sql_types import find_type_oid, format_type

_Evaluate = Callable[..., Any]
"""Takes the relations and the arguments of one row; returns the value."""


@dataclass(frozen=True, slots=True)
class CatalogFunction:
    """A function with a fixed number of arguments.

    Attributes:
        name: in the text for DataFusion.
        arguments: their types.
        result: type of the value.
        evaluate: see `_Evaluate`.
    """

    name: str
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    evaluate: _Evaluate

    def make(self, relations: Relations) -> ScalarUDF:
        """Return the function for DataFusion."""

        def call(*columns: pa.Array) -> pa.Array:
            rows = zip(*(column.to_pylist() for column in columns), strict=True)
            return pa.array([self.evaluate(relations, *row) for row in rows], self.result)

        # Not immutable: DataFusion would evaluate it while it plans, when nothing is gathered yet.
        return udf(call, list(self.arguments), self.result, "stable", self.name)


def _find_by_oid(relations: Relations, oid: int | None) -> Relation | None:
    return next((one for one in relations.all if relations.number(one) == oid), None)


def _define_constraint(relations: Relations, oid: int | None, *_: object) -> str | None:
    for one in relations.all:
        for rule in relations.list_rules(one):
            if number_rule(one, rule) == oid:
                return rule.definition
    return None


def _define_index(relations: Relations, oid: int | None, column: int | None = 0, *_: object) -> str | None:
    for one in relations.all:
        for index in one.indexes:
            if relations.numbers[one.schema, one.name, index.name] == oid:
                if not column:
                    return define_index(one, index)
                return quote_plainly(index.columns[column - 1]) if column <= len(index.columns) else ""
    return None


def _define_view(relations: Relations, oid: int | None, *_: object) -> str | None:
    found = _find_by_oid(relations, oid)
    return None if found is None else found.definition


def _is_visible(relations: Relations, oid: int | None) -> bool | None:
    """Return whether a relation or index is found by its name alone."""
    if oid is None:
        return None
    schemas = {schema for (schema, _, _), number in relations.numbers.items() if number == oid}
    return not schemas.isdisjoint({relations.schema, PG_CATALOG})


def _describe_object(relations: Relations, oid: int | None, catalog: str | None = "pg_class") -> str | None:
    found = _find_by_oid(relations, oid) if catalog == "pg_class" else None
    return None if found is None else found.comment


def _describe_column(relations: Relations, oid: int | None, number: int | None) -> str | None:
    found = _find_by_oid(relations, oid)
    if found is None or number is None or not 0 < number <= len(found.columns):
        return None
    return read_column_comment(found.columns.field(number - 1))


def _find_relation(relations: Relations, name: str) -> Relation | None:
    """Return a relation by its oid in digits, or its name as SQL writes it."""
    if name.isdigit():
        return _find_by_oid(relations, int(name))
    *qualifiers, last = _split_name(name)
    return relations.find(qualifiers[-1] if qualifiers else relations.schema, last)


def _split_name(name: str) -> list[str]:
    parts = re.findall(r'"(?:[^"]|"")*"|[^.]+', name.strip())
    return [part[1:-1].replace('""', '"') if part.startswith('"') else fold(part) for part in parts] or [""]


def _find_class(relations: Relations, name: str | None) -> int | None:
    """Return the oid of a table, view or index by its name."""
    if name is None:
        return None
    if name.isdigit():
        return int(name)
    *qualifiers, last = _split_name(name)
    if last in CLASS_OIDS and qualifiers[-1:] in ([], [PG_CATALOG]):
        return CLASS_OIDS[last]
    schema = qualifiers[-1] if qualifiers else relations.schema
    found = relations.find(schema, last)
    if found is not None:
        return relations.number(found)
    indexes = (
        number for (owner, _, index), number in relations.numbers.items() if (owner, index) == (schema, last)
    )
    return next(indexes, None)


def _name_class(relations: Relations, oid: int | None) -> str | None:
    """Return the name of a relation, with its schema where it is not found without."""
    if oid is None:
        return None
    for (schema, table, index), number in relations.numbers.items():
        if number == oid:
            name = quote_plainly(index or table)
            return name if schema == relations.schema else f"{quote_plainly(schema)}.{name}"
    own = {number: name for name, number in CLASS_OIDS.items()}
    return own.get(oid, str(oid) if oid else "-")


def _name_schema(relations: Relations, oid: int | None) -> str | None:
    names = (name for name in relations.schemas if number_schema(name) == oid)
    return next(names, None if oid is None else str(oid))


def _find_schema(relations: Relations, name: str | None) -> int | None:
    if name is None:
        return None
    (last, *_) = reversed(_split_name(name))
    return number_schema(last) if last in relations.schemas else None


def _tell_setting(_relations: Relations, name: str | None, *_: object) -> str | None:
    return None if name is None else find_fixed_setting(name)


_WRITES: Final = frozenset({"insert", "update", "delete", "truncate"})


def _may(relations: Relations, *arguments: str | None) -> bool | None:
    """Return whether the principal has one of some privileges on a table; the user may stand first."""
    if None in arguments:
        return None
    *_, name, privileges = map(str, arguments)
    found = _find_relation(relations, name)
    if found is None:
        return None
    wanted = {part.strip().lower().partition(" with")[0] for part in privileges.split(",")}
    return "select" in wanted or (found.is_writable and not wanted.isdisjoint(_WRITES))


def _may_with_column(relations: Relations, *arguments: str | None) -> bool | None:
    """Return what `_may` does, with a column before the privileges; the user may stand first."""
    *table, _, privileges = arguments
    return None if None in arguments else _may(relations, *table, privileges)


def _has_role(relations: Relations, *arguments: str | None) -> bool | None:
    """Return whether a role is the principal; an oid of a role always is. The user may stand first."""
    if None in arguments:
        return None
    role = str(arguments[-2])
    return role.isdigit() or role == relations.user


def _may_in_schema(relations: Relations, *arguments: str | None) -> bool | None:
    if None in arguments:
        return None
    *_, name, privileges = map(str, arguments)
    known = (
        name in relations.schemas
        or _name_schema(relations, int(name) if name.isdigit() else None) is not None
    )
    return known and "usage" in privileges.lower()


def _may_in_database(_relations: Relations, *arguments: str | None) -> bool | None:
    *_, privileges = arguments
    return None if None in arguments or privileges is None else "connect" in privileges.lower()


def _measure(relations: Relations, name: str | None) -> int | None:
    found = None if name is None else _find_relation(relations, name)
    return None if found is None or found.measure is None else found.measure()


def _show_size(_relations: Relations, size: int | None) -> str | None:
    """Return a number of bytes in the largest unit of which there are ten, rounded, as PostgreSQL does."""
    if size is None:
        return None
    amount = abs(size)
    shown, unit = amount, "bytes"
    for power, name in enumerate(("kB", "MB", "GB", "TB", "PB"), start=1):
        rounded = (2 * amount + 1024 ** (power - 1)) // (2 * 1024 ** (power - 1))
        if rounded < 10 * 1024:
            break
        shown, unit = (2 * amount + 1024**power) // (2 * 1024**power), name
    return f"{'-' if size < 0 else ''}{shown} {unit}"


def _quote_literal(_relations: Relations, text: str | None) -> str | None:
    if text is None:
        return None
    quoted = "'" + text.replace("'", "''").replace("\\", "\\\\") + "'"
    return f"E{quoted}" if "\\" in text else quoted


def _nothing(_relations: Relations, *_: object) -> None:
    """Return NULL: there is no such object."""


def _true(_relations: Relations, oid: int | None) -> bool | None:
    return None if oid is None else True


_TEXT, _OID, _INT, _BOOL = pa.string(), pa.int64(), pa.int64(), pa.bool_()
_DEFINED: Final[tuple[tuple[str, pa.DataType, _Evaluate, tuple[tuple[pa.DataType, ...], ...]], ...]] = (
    ("format_type", _TEXT, lambda _, oid, modifier: format_type(oid, modifier), ((_OID, _INT),)),
    ("pg_get_constraintdef", _TEXT, _define_constraint, ((_OID,), (_OID, _BOOL))),
    ("pg_get_indexdef", _TEXT, _define_index, ((_OID,), (_OID, _INT, _BOOL))),
    ("pg_get_viewdef", _TEXT, _define_view, ((_OID,), (_OID, _BOOL))),
    ("pg_get_expr", _TEXT, lambda _, text, *__: text, ((_TEXT, _OID), (_TEXT, _OID, _BOOL))),
    ("pg_table_is_visible", _BOOL, _is_visible, ((_OID,),)),
    ("pg_type_is_visible", _BOOL, _true, ((_OID,),)),
    ("pg_collation_is_visible", _BOOL, _true, ((_OID,),)),
    ("pg_function_is_visible", _BOOL, _true, ((_OID,),)),
    ("obj_description", _TEXT, _describe_object, ((_OID,), (_OID, _TEXT))),
    ("col_description", _TEXT, _describe_column, ((_OID, _INT),)),
    ("shobj_description", _TEXT, _nothing, ((_OID, _TEXT),)),
    ("pg_get_userbyid", _TEXT, lambda relations, oid: None if oid is None else relations.user, ((_OID,),)),
    ("pg_get_serial_sequence", _TEXT, _nothing, ((_TEXT, _TEXT),)),
    ("pg_get_partkeydef", _TEXT, _nothing, ((_OID,),)),
    ("pg_get_triggerdef", _TEXT, _nothing, ((_OID,), (_OID, _BOOL))),
    ("pg_relation_size", _INT, _measure, ((_TEXT,),)),
    ("pg_table_size", _INT, _measure, ((_TEXT,),)),
    ("pg_total_relation_size", _INT, _measure, ((_TEXT,),)),
    ("pg_indexes_size", _INT, _nothing, ((_TEXT,),)),
    ("pg_database_size", _INT, _nothing, ((_TEXT,),)),
    ("pg_size_pretty", _TEXT, _show_size, ((_INT,),)),
    ("quote_literal", _TEXT, _quote_literal, ((_TEXT,),)),
    ("quote_nullable", _TEXT, lambda _, text: _quote_literal(_, text) or "NULL", ((_TEXT,),)),
    ("pg_has_role", _BOOL, _has_role, ((_TEXT, _TEXT), (_TEXT, _TEXT, _TEXT))),
    ("has_column_privilege", _BOOL, _may_with_column, ((_TEXT,) * 3, (_TEXT,) * 4)),
    ("pg_encoding_to_char", _TEXT, lambda _, number: "UTF8" if number == 6 else "", ((_INT,),)),
    ("current_setting", _TEXT, _tell_setting, ((_TEXT,), (_TEXT, _BOOL))),
    ("quote_ident", _TEXT, lambda _, name: None if name is None else quote_plainly(name), ((_TEXT,),)),
    ("has_table_privilege", _BOOL, _may, ((_TEXT, _TEXT), (_TEXT, _TEXT, _TEXT))),
    ("has_any_column_privilege", _BOOL, _may, ((_TEXT, _TEXT), (_TEXT, _TEXT, _TEXT))),
    ("has_schema_privilege", _BOOL, _may_in_schema, ((_TEXT, _TEXT), (_TEXT, _TEXT, _TEXT))),
    ("has_database_privilege", _BOOL, _may_in_database, ((_TEXT, _TEXT), (_TEXT, _TEXT, _TEXT))),
    ("to_regclass", _OID, _find_class, ((_TEXT,),)),
    ("to_regtype", _OID, lambda _, name: None if name is None else find_type_oid(name), ((_TEXT,),)),
    ("to_regnamespace", _OID, _find_schema, ((_TEXT,),)),
    ("regclass_name", _TEXT, _name_class, ((_OID,),)),
    ("regtype_name", _TEXT, lambda _, oid: format_type(oid, None), ((_OID,),)),
    ("regnamespace_name", _TEXT, _name_schema, ((_OID,),)),
)
CATALOG_FUNCTIONS: Final[Mapping[tuple[str, int], CatalogFunction]] = MappingProxyType(
    {
        (name, len(arguments)): CatalogFunction(f"{name}_{len(arguments)}", arguments, result, evaluate)
        for name, result, evaluate, forms in _DEFINED
        for arguments in forms
    }
)
"""Name and number of arguments -> function."""
FUNCTION_NAMES: Final = frozenset(name for name, _ in CATALOG_FUNCTIONS)
OWN_NAMES: Final = frozenset(function.name for function in CATALOG_FUNCTIONS.values())
"""Names of the functions in the text for DataFusion."""


def register_functions(context: SessionContext, names: frozenset[str], relations: Relations) -> None:
    """Make functions known to a context.

    Args:
        context: of the statement.
        names: of the functions, in the text for DataFusion.
        relations: what the principal sees.
    """
    for function in CATALOG_FUNCTIONS.values():
        if function.name in names:
            context.register_udf(function.make(relations))
