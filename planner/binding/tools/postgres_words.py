"""Statements about pg_catalog, in words of DataFusion."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from lance_gateway.planner.bridge.types.parameter_types import sql_type
from lance_gateway.planner.sql.forms.calls import fill, list_plain_calls, put
from lance_gateway.planner.sql.tree.dialect import write_sql
from lance_gateway.planner.sql.tree.tree import Tree
from lance_gateway.planner.system.catalogs.functions import CATALOG_FUNCTIONS, FUNCTION_NAMES, CatalogFunction
from lance_gateway.planner.system.catalogs.pg_catalog import ALWAYS_EMPTY
from lance_gateway.planner.system.catalogs.relations import INFORMATION_SCHEMA, PG_CATALOG

_PLAIN_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "OID": "BIGINT",
        "XID": "BIGINT",
        "NAME": "VARCHAR",
        "REGPROC": "VARCHAR",
        '"char"': "VARCHAR",
    }
)
_NAMED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "REGCLASS": ("to_regclass", "regclass_name"),
        "REGTYPE": ("to_regtype", "regtype_name"),
        "REGNAMESPACE": ("to_regnamespace", "regnamespace_name"),
        "REGROLE": ("pg_get_userbyid", "pg_get_userbyid"),
    }
)
"""Type -> function that makes oids of names, function that makes names of oids."""
_UNKNOWN_TYPES: Final = frozenset({exp.DType.USERDEFINED, exp.DType.NAME})
_PARAMETERS: Final = (exp.Parameter, exp.Placeholder)
_GIVING_NAMES: Final = frozenset({"pg_get_serial_sequence", "quote_ident"})
_SUBSCRIPTS: Final = "unnest(range(1, CAST(cardinality($1) AS BIGINT) + CAST($2 AS BIGINT)))"
"""Lists have one dimension, so its number is also what is behind the last subscript."""
_FAILS: Final = "CAST(CAST(concat('json_build_object is not supported: ', $1) AS BIGINT) AS VARCHAR)"


def postgres_words(tree: Tree) -> None:
    """Write functions and types of pg_catalog as those of DataFusion.

        SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = 'main.orders'::regclass
    ->  SELECT a.attname, format_type_2(a.atttypid, a.atttypmod) AS "format_type"
        FROM pg_catalog.pg_attribute a WHERE a.attrelid = to_regclass_1('main.orders')

    Oids are numbers, and names are texts. The casts of PostgreSQL between them are functions; a literal or
    parameter is cast to an oid, anything else is an oid that is cast to its name.

    Raises:
        InvalidInputError: a function of pg_catalog has another number of arguments.
    """
    is_over_nothing = any(name.name in ALWAYS_EMPTY for name in tree.find_all(exp.Identifier))
    for column in tree.find_all(exp.Column):
        if column.args.get("table") and column.text("db") == PG_CATALOG and not column.args.get("catalog"):
            column.set("db", None)
            tree.note_change()
    # Casts come first: the type of a cast depends on the call in it.
    for node in tree.find_all(exp.Cast, exp.DataType, exp.Collate, exp.Operator)[::-1]:
        _write_syntax(tree, node)
    for whole, call in list_plain_calls(tree, PG_CATALOG):
        new = _write_call(tree, call, is_over_nothing=is_over_nothing)
        if new is not None:
            put(tree, whole, new, call.name)
        elif whole is not call:
            tree.replace(whole, call.copy())


def _write_syntax(tree: Tree, node: exp.Expr) -> None:
    if isinstance(node, exp.Collate):
        # COLLATE has no effect, since texts have one order.
        if node.expression.name in {"default", "C"}:
            tree.replace(node, node.this.copy())
    elif isinstance(node, exp.Operator):
        operator = node.args["operator"]
        if operator.lower().startswith(f"{PG_CATALOG}."):
            template = f"$1 {operator[len(PG_CATALOG) + 1 :]} $2"
            tree.replace(node, fill(template, node.this, node.expression))
    elif isinstance(node, exp.Cast):
        kind = _read_type(node.to)
        if kind in _NAMED:
            column = node.this.name if isinstance(node.this, exp.Column) else kind.lower()
            put(tree, node, fill(f"{_choose(kind, node.this)}($1)", node.this), column)
    else:
        plain = _PLAIN_TYPES.get(_read_type(node))
        if plain is not None:
            tree.replace(node, exp.DataType.build(plain))


def _read_type(kind: exp.Expr) -> str:
    """Return the name of a type as `_NAMED` and `_PLAIN_TYPES` have it; empty for types of DataFusion."""
    if isinstance(kind.this, exp.DType) and kind.this not in _UNKNOWN_TYPES:
        return ""
    schema, dot, name = write_sql(kind).rpartition(".")
    if dot and schema.lower() == INFORMATION_SCHEMA:
        return "OID" if name.lower() == "cardinal_number" else "NAME"
    return name if name.startswith('"') else name.upper()


def _choose(kind: str, operand: exp.Expr) -> str:
    """Return the function that casts an operand to a type that is an oid with a name."""
    calls = {call.name.lower() for call in operand.find_all(exp.Anonymous)}
    is_literal = isinstance(operand, exp.Literal) and operand.is_string
    is_name = is_literal or isinstance(operand, _PARAMETERS) or not calls.isdisjoint(_GIVING_NAMES)
    return CATALOG_FUNCTIONS[_NAMED[kind][0 if is_name else 1], 1].name


def _write_call(tree: Tree, call: exp.Anonymous, *, is_over_nothing: bool) -> exp.Expr | None:
    name, arguments = call.name.lower(), call.expressions
    if name == "current_setting" and arguments and isinstance(arguments[0], exp.Literal):
        return None  # a constant, see `session_functions`
    if name in FUNCTION_NAMES:
        function = CATALOG_FUNCTIONS.get((name, len(arguments)))
        if function is None:
            counts = " or ".join(str(number) for other, number in CATALOG_FUNCTIONS if other == name)
            what = f"{name} takes {counts} arguments, and {len(arguments)} are given"
            raise tree.error(call, what)
        return exp.Anonymous(this=function.name, expressions=_type_parameters(arguments, function))
    if name == "generate_subscripts" and len(arguments) == 2:
        return fill(_SUBSCRIPTS, *arguments)
    if name == "pg_is_in_recovery":
        return exp.false()
    if name == "json_build_object" and is_over_nothing and arguments:
        # It is over rows that there are none of; over others, the cast fails.
        return fill(
            _FAILS, fill(f"concat({', '.join(f'${n + 1}' for n in range(len(arguments)))})", *arguments)
        )
    return None


def _type_parameters(arguments: list[exp.Expr], function: CatalogFunction) -> list[exp.Expr]:
    """Return the arguments, with the types of those that are parameters."""
    return [
        fill(f"CAST($1 AS {sql_type(kind)})", argument)
        if isinstance(argument, _PARAMETERS)
        else argument.copy()
        for argument, kind in zip(arguments, function.arguments, strict=False)
    ]
