"""Lists that SHOW gives, as queries over information_schema and system.

SHOW SCHEMAS LIKE 'm%'
->  SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'm%' ORDER BY 1
SHOW CREATE TABLE t
->  SELECT .. FROM system.definitions WHERE table_schema = 'main' AND table_name = 't'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.sql.text.statement_reader import StatementReader
from lance_gateway.planner.sql.text.tokens import STRING, SqlText, tokenize


@dataclass(frozen=True, slots=True)
class _List:
    """One kind of list.

    Attributes:
        select: its rows.
        name: the expression that LIKE looks at.
        place: the column that FROM is compared with; "" for lists without FROM.
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
_GRANTS: Final = """
SELECT table_schema, table_name, CASE WHEN has_table_privilege(
    '"' || replace(table_schema, '"', '""') || '"."' || replace(table_name, '"', '""') || '"', 'INSERT'
) THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE 'SELECT' END AS privileges FROM information_schema.tables"""
_STATEMENTS: Final = 'SELECT query_id, "user", state, phase, started_at, statement FROM system.queries'
_LISTS: Final[Mapping[str, _List]] = MappingProxyType(
    {
        "CATALOGS": _CATALOGS,
        "DATABASES": _CATALOGS,
        "SCHEMAS": _List(
            "SELECT schema_name FROM information_schema.schemata", "schema_name", "catalog_name"
        ),
        "GRANTS": _List(_GRANTS, "table_name", "table_schema", default=_OF_USERS, order="1, 2"),
        "JOBS": _List("SELECT * FROM system.jobs", "kind", order="started_at"),
        "PROCESSLIST": _List(_STATEMENTS, "statement", condition="state = 'running'", order="started_at"),
        "TABLES": _List(_TABLES, "table_name", "table_schema", default=_OF_USERS, order="2, 3"),
        "VIEWS": _List(
            _TABLES, "table_name", "table_schema", "table_type = 'VIEW'", default=_OF_USERS, order="2, 3"
        ),
    }
)
LISTED: Final = frozenset(_LISTS)
"""Words behind SHOW that name a list."""
_INDEXES: Final = (
    "SELECT index_name, type, columns, is_maintained, covered_fragments, base_fragments FROM system.indexes "
    "WHERE table_schema = {schema} AND table_name = {table} ORDER BY 1"
)
_VIEW: Final = (
    "SELECT {schema} AS table_schema, {table} AS table_name, {start} || pg_get_viewdef({name}::regclass) "
    "AS create_statement"
)
_OF_TABLE: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("CREATE", "TABLE"): (
            "SELECT table_schema, table_name, definition AS create_statement FROM system.definitions "
            "WHERE table_schema = {schema} AND table_name = {table}"
        ),
        ("CREATE", "VIEW"): _VIEW,
        **{(word, before): _INDEXES for word in ("INDEXES", "INDEX", "KEYS") for before in ("FROM", "IN")},
    }
)


def shows_table(text: SqlText) -> bool:
    """Return whether a statement shows what a table or view is made of, by its name."""
    return text.words[0] == "SHOW" and tuple(text.words[1:3]) in _OF_TABLE


def show_table(text: SqlText, name: TableName, *, is_view: bool) -> SqlText:
    """Return the query that shows what a table or view is made of.

    Args:
        text: a statement of these.
        name: of the table.
        is_view: whether it is a view.
    """
    query = _VIEW if is_view and text.words[1] == "CREATE" else _OF_TABLE[text.words[1], text.words[2]]
    return tokenize(
        query.format(
            schema=_literal(name.schema),
            table=_literal(name.table),
            start=_literal(f"CREATE VIEW {name.sql} AS "),
            name=_literal(name.sql),
        )
    )


def list_by_query(text: SqlText) -> SqlText:
    """Return the query that gives the rows of SHOW with one of the words of `LISTED`.

    Raises:
        InvalidInputError: syntax.
    """
    reader = StatementReader(text, 1)
    listed = _LISTS[reader.word]
    reader.at += 1
    conditions = [listed.condition] if listed.condition else []
    if listed.place and (reader.take("FROM") or reader.take("IN")):
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
