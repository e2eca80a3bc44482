"""Functions that give who asks, and where, as constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from lance_gateway.planner.sql.forms.calls import fill, list_plain_calls, put
from lance_gateway.planner.sql.tree.tree import Rule, Tree
from lance_gateway.planner.system.catalogs.fixed_settings import SERVER_VERSION, find_fixed_setting

_RESERVED: Final = frozenset(
    {"CURRENT_USER", "SESSION_USER", "CURRENT_ROLE", "CURRENT_CATALOG", "CURRENT_SCHEMA"}
)
_CONSTANTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # A session has no process and no connection of its own.
        **dict.fromkeys(("PG_BACKEND_PID", "CONNECTION_ID", "PG_MY_TEMP_SCHEMA"), "0"),
        **dict.fromkeys(("PG_CLIENT_ENCODING", "GETDATABASEENCODING"), "'UTF8'"),
        **dict.fromkeys(("INET_CLIENT_ADDR", "INET_SERVER_ADDR"), "CAST(NULL AS TEXT)"),
        **dict.fromkeys(("INET_CLIENT_PORT", "INET_SERVER_PORT"), "CAST(NULL AS INT)"),
    }
)
"""Function without arguments -> its value."""
_CALLED: Final = (
    _RESERVED
    | _CONSTANTS.keys()
    | {"CURRENT_DATABASE", "CURRENT_SCHEMAS", "VERSION", "CURRENT_SETTING"}
    | {"USER", "SYSTEM_USER", "DATABASE", "SCHEMA"}
)
_WORDS: Final = (exp.CurrentUser, exp.SessionUser, exp.CurrentRole, exp.CurrentCatalog, exp.CurrentSchema)


@dataclass(frozen=True, slots=True)
class CurrentNames:
    """The names that a session has for its user and its place.

    Attributes:
        user: name of the principal.
        catalog: of the session.
        schema: likewise.
    """

    user: str
    catalog: str
    schema: str


def describe_server() -> str:
    """Return what version() gives."""
    return (
        f"Lance Gateway {version('lance-gateway')} on Apache DataFusion {version('datafusion')}, "
        f"with the catalog of PostgreSQL {SERVER_VERSION}"
    )


def write_current_names(current: CurrentNames) -> Rule:
    """Return a form that writes constants in the places of these functions.

        SELECT current_user, count(*) FROM orders WHERE clerk = current_user
    ->  SELECT 'anna' AS "current_user", count(*) FROM orders WHERE clerk = 'anna'

    Those without brackets are reserved words in PostgreSQL: a column of such a name is written in quotes, or
    behind the name of its table. The form raises InvalidInputError for current_setting() of a setting that
    sessions do not have in common.
    """

    def session_functions(tree: Tree) -> None:
        for whole, call in list_plain_calls(tree):
            value = _compute(tree, call, current) if call.name.upper() in _CALLED else None
            if value is not None:
                put(tree, whole, value, call.name.lower())
        for node in tree.find_all(exp.Column, *_WORDS):
            name = node.sql_name() if isinstance(node, exp.Func) else _read_bare(node)
            if name in _RESERVED:
                names = {"CURRENT_CATALOG": current.catalog, "CURRENT_SCHEMA": current.schema}
                put(tree, node, exp.Literal.string(names.get(name, current.user)), name.lower())

    return session_functions


def _read_bare(column: exp.Expr) -> str:
    """Return the name of a column that may be a reserved word; empty for others."""
    is_bare = not column.args.get("table") and not column.this.args.get("quoted")
    return column.name.upper() if is_bare else ""


def _compute(tree: Tree, call: exp.Anonymous, current: CurrentNames) -> exp.Expr | None:
    """Return the value of a call; None where it is another function, or has other arguments."""
    name, arguments = call.name.upper(), call.expressions
    if not arguments:
        values = {
            "CURRENT_DATABASE": current.catalog,
            **dict.fromkeys(("CURRENT_SCHEMA", "DATABASE", "SCHEMA"), current.schema),
            **dict.fromkeys(("CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"), current.user),
            "VERSION": describe_server(),
        }
        if name in values:
            return exp.Literal.string(values[name])
        return fill(_CONSTANTS[name]) if name in _CONSTANTS else None
    first = arguments[0]
    if name == "CURRENT_SCHEMAS" and len(arguments) == 1 and isinstance(first, exp.Boolean):
        names = ["pg_catalog"] * bool(first.this) + [current.schema]
        return exp.Array(expressions=[exp.Literal.string(one) for one in names])
    if name == "CURRENT_SETTING" and isinstance(first, exp.Literal) and first.is_string:
        setting = first.name
        value = current.schema if setting.lower() == "search_path" else find_fixed_setting(setting)
        if value is not None:
            return exp.Literal.string(value)
        if len(arguments) > 1 and isinstance(arguments[1], exp.Boolean) and arguments[1].this:
            return fill("CAST(NULL AS TEXT)")
        what = f"current_setting() does not know {setting!r}, which SHOW may know"
        raise tree.error(first, what)
    return None
