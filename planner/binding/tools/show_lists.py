"""Lists that SHOW gives, as queries over information_schema.

SHOW SCHEMAS LIKE 'm%'
->  SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'm%' ORDER BY 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from planner.sql.statement_reader import StatementReader
from planner.sql.tokens import STRING, SqlText, tokenize


@dataclass(frozen=True, slots=True)
class _List:
    """One kind of list.

    Attributes:
        select: its rows.
        name: the expression that LIKE looks at.
        place: the expression that FROM names; "" where FROM names the only catalog.
        condition: of all rows.
        default: condition of the rows where no FROM stands.
        order: of the rows.
    """

    select: str
    name: str
    place: str = ""
    condition: str = ""
    default: str = ""
    order: str = "1"


_CATALOGS: Final = _List(
    "SELECT DISTINCT catalog_name FROM information_schema.schemata",
    "catalog_name",
)
_TABLES: Final = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables"
_OF_USERS: Final = "table_schema NOT IN ('information_schema', 'pg_catalog', 'system')"
_LISTS: Final[Mapping[str, _List]] = MappingProxyType(
    {
        "CATALOGS": _CATALOGS,
        "DATABASES": _CATALOGS,
        "SCHEMAS": _List(
            "SELECT schema_name FROM information_schema.schemata", "schema_name", "catalog_name"
        ),
        "TABLES": _List(_TABLES, "table_name", "table_schema", default=_OF_USERS, order="2, 3"),
        "VIEWS": _List(
            _TABLES, "table_name", "table_schema", "table_type = 'VIEW'", default=_OF_USERS, order="2, 3"
        ),
    }
)
LISTED: Final = frozenset(_LISTS)
"""Words behind SHOW that name a list."""


def list_by_query(text: SqlText) -> SqlText:
    """Return the query that gives the rows of SHOW with one of the words of `LISTED`.

    Raises:
        InvalidInputError: syntax.
    """
    reader = StatementReader(text, 1)
    listed = _LISTS[reader.word]
    reader.at += 1
    conditions = [listed.condition] if listed.condition else []
    if listed is not _CATALOGS and (reader.take("FROM") or reader.take("IN")):
        *qualifiers, name = reader.read_qualified_name("The name of a catalog or schema")
        conditions.append(f"{listed.place} = {_literal(name)}")
        conditions += [f"table_catalog = {_literal(one)}" for one in qualifiers]
    elif listed.default:
        conditions.append(listed.default)
    if reader.take("LIKE"):
        if reader.word != STRING:
            raise reader.unexpected_error("A pattern in single quotes is expected behind LIKE")
        conditions.append(f"{listed.name} LIKE {_literal(text.tokens[reader.at].text)}")
        reader.at += 1
    reader.expect_end()
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return tokenize(f"{listed.select}{where} ORDER BY {listed.order}")


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
