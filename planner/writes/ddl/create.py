"""``CREATE ..``: what is created decides who reads the rest."""

from __future__ import annotations

from planner.access.rights import Access
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.writes.ddl.indexes.index_statements import prepare_create_index
from planner.writes.ddl.statement.prepared_ddl import PreparedDefinition
from planner.writes.ddl.statement.reader import Reader
from planner.writes.ddl.tables.create_table import prepare_create_table
from planner.writes.ddl.views import prepare_create_view

_TEMPORARY = "There are no temporary tables and views: make one and drop it, or use WITH"
_REFUSED = {
    "TEMP": _TEMPORARY,
    "TEMPORARY": _TEMPORARY,
    "EXTERNAL": "External tables are not offered: put the data into a table of this catalog",
    "UNLOGGED": "Tables without a log are not offered: SET durable_writes = false is the faster, weaker way",
    "MATERIALIZED": "Materialized views are not offered: CREATE TABLE .. AS SELECT keeps a result",
    "SCHEMA": "There is one schema: 'main'",
    "DATABASE": "There is one catalog: 'lance'",
    "FUNCTION": "Functions can't be made",
    "SEQUENCE": "Sequences are not offered",
    "UNIQUE": "Unique indexes are not offered; a PRIMARY KEY keeps the newest row of each key",
}


def prepare_create(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedDefinition:
    """Check a statement that creates something.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    reader = Reader.of(sql)
    reader.expect("CREATE")
    replaces = reader.accept("OR", "REPLACE")
    if reader.word in ("LOCAL", "GLOBAL") and reader.word_after(1) in ("TEMP", "TEMPORARY"):
        reader.at += 1
    if reader.word in _REFUSED:
        raise reader.refused(f"{_REFUSED[reader.word]}; it stands")
    what = reader.choose("what is created", "TABLE", "VIEW", "INDEX")
    if what == "TABLE":
        return prepare_create_table(engine, reader, settings, access, replaces=replaces)
    if what == "VIEW":
        return prepare_create_view(engine, reader, settings, access, replaces=replaces)
    return prepare_create_index(engine, reader, access, replaces=replaces)
