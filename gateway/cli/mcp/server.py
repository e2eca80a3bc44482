"""The tools, and the SQL that they write: each asks the gateway as one user, and answers with text."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from threading import Lock
from typing import Annotated, Any

import pyarrow as pa
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pyarrow import flight
from pydantic import Field

from lance_gateway.gateway.cli.client import GatewayClient, list_names
from lance_gateway.gateway.cli.mcp.answers import AnswerLimits, format_rows
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.protos.flight_sql import format_error


def quote(name: str) -> str:
    """Return a name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def format_text(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Search:
    """A search for the best rows of a table, by text, by vector, or by both.

    Args:
        table: its name.
        text: words, a phrase in double quotes, or a JSON object; with `text_column`.
        text_column: with a text index.
        vector: numbers, as many as the column's vectors have; with `vector_column`.
        vector_of: a query that returns the vector, in place of `vector`.
        vector_column: a column of vectors.
        columns: to return, beside the scores; None returns all.
        where: an SQL condition that rows must fulfil.
        k: rows wanted.

    Raises:
        InvalidInputError: it is not clear what is searched for.
    """

    table: str
    text: str | None
    text_column: str | None
    vector: Sequence[float] | None
    vector_of: str | None
    vector_column: str | None
    columns: Sequence[str] | None
    where: str | None
    k: int

    def __post_init__(self) -> None:
        if self.vector is not None and self.vector_of is not None:
            raise InvalidInputError("both vector and vector_of are given: give one of them")
        if (self.text is None) != (self.text_column is None):
            raise InvalidInputError("text and text_column belong together: give both, or neither")
        if (self._vector_sql is None) != (self.vector_column is None):
            raise InvalidInputError(
                "a vector (vector or vector_of) and vector_column belong together: give both, or neither"
            )
        if self.text is None and self.vector_column is None:
            raise InvalidInputError("nothing is searched for: give a text or a vector, and its column")

    @property
    def _vector_sql(self) -> str | None:
        if self.vector is not None:
            return "[" + ", ".join(map(repr, self.vector)) + "]"
        return None if self.vector_of is None else f"({self.vector_of}\n)"

    def build_sql(self) -> str:
        """Return the statement."""
        arguments = [format_text(self.table)]
        if self.vector_column is not None:
            arguments += [format_text(self.vector_column), str(self._vector_sql)]
        if self.text_column is not None:
            arguments += [format_text(self.text_column), format_text(str(self.text))]
        function, scores, order = self._choose_function()
        columns = "*" if self.columns is None else ", ".join([*map(quote, self.columns), *scores])
        where = "" if self.where is None else f"\nWHERE ({self.where}\n)"
        call = f"{function}({', '.join([*arguments, f'k => {self.k}'])})"
        # Names and texts are quoted; conditions and queries are the caller's own SQL, with its rights.
        return f"SELECT {columns}\nFROM {call}{where}\nORDER BY {order}"

    def _choose_function(self) -> tuple[str, tuple[str, ...], str]:
        """Return the function, the columns that it adds, and the order of the best."""
        if self.text is None:
            return "lance_vector_search", ("_distance",), "_distance"
        if self.vector_column is None:
            return "lance_fts", ("_score",), "_score DESC"
        return "lance_hybrid_search", ("_hybrid_score", "_distance", "_score"), "_hybrid_score DESC"


DEFAULT_ROWS = 100
_INSTRUCTIONS = """
Lance Gateway answers SQL over Lance tables, always with the newest rows. Begin with list_tables, then
describe_table. The SQL is DataFusion's, much like PostgreSQL's. Vectors and texts are searched with the tool
search, or in SQL with lance_vector_search, lance_fts and lance_hybrid_search. Long values in answers are cut:
substr(), array_slice() and CAST show the rest. Tables about tables are in the schema system (system.tables,
system.indexes, system.queries).
"""
_READS = (
    "Statements that change something are refused; whoever runs this server can start it with --allow-writes."
)
_WRITES = "Statements may change rows and tables, as far as the user may: each is committed when it returns."
_REMARKS = b"ARROW:FLIGHT:SQL:REMARKS"

RowCount = Annotated[int, Field(ge=1, description="Rows to return, at most.")]


@contextmanager
def raise_tool_errors() -> Iterator[None]:
    """Turn what the gateway refuses, and what fails on the way to it, into errors that the model reads."""
    try:
        yield
    except (LanceGatewayError, flight.FlightError, pa.ArrowException, OSError) as error:
        raise ToolError(" ".join(format_error(error).split())) from None


class Gateway:
    """The gateway that the tools ask; connects when it is first asked, and again until that succeeds.

    Args:
        connect: opens the connection.
        limits: of each answer.
    """

    def __init__(self, connect: Callable[[], GatewayClient], limits: AnswerLimits) -> None:
        self._connect = connect
        self._limits = limits
        self._lock = Lock()
        self._client: GatewayClient | None = None

    @property
    def client(self) -> GatewayClient:
        """The connection; tools may use it in several threads."""
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def close(self) -> None:
        """Close the connection if there is one."""
        if self._client is not None:
            self._client.close()

    @raise_tool_errors()
    def list_tables(self) -> str:
        """List the tables and views that you may read."""
        listed = self.client.list_tables("TABLE", "VIEW")
        names = pa.array(list_names(listed), pa.string())
        rows = pa.table({"table_name": names, "table_type": listed.column("table_type")})
        return format_rows(rows.schema, rows.to_batches(), self._limits)

    @raise_tool_errors()
    def describe_table(
        self, table: Annotated[str, Field(description="Name of a table or view, as list_tables has it.")]
    ) -> str:
        """Describe a table or view: columns, primary key, indexes, and what is not merged into its base."""
        name = self.client.resolve_name(table)
        schema = self.client.read_schema(name)
        named = f"WHERE table_schema = {format_text(name.schema)} AND table_name = {format_text(name.table)}"
        read = partial(self._read, named)
        defaults = {row["column_name"]: row["column_default"] for row in read("system.columns")}
        told: dict[str, object] = {"table": table}
        for row in read("system.tables"):
            told["comment"] = row["comment"]
            told["primary_key"] = row["primary_key"]
            told["base_table"] = {"version": row["base_version"], "rows": row["base_rows"]}
            # How a table is stored is not told to users who see a part of it.
            if row["unmerged_generations"] is not None:
                unflushed = sum(one["unflushed_rows"] or 0 for one in read("system.regions"))
                told["fresh"] = {
                    "unmerged_generations": row["unmerged_generations"],
                    "unflushed_rows": unflushed,
                }
            told["indexes"] = [
                {"name": one["index_name"], "type": one["type"], "columns": one["columns"]}
                for one in read("system.indexes")
            ]
        told["columns"] = [
            {
                "name": field.name,
                "type": str(field.type),
                "nullable": field.nullable,
                "default": defaults.get(field.name),
                "comment": (field.metadata or {}).get(_REMARKS, b"").decode() or None,
            }
            for field in schema
        ]
        return format_description(told)

    @raise_tool_errors()
    def query(
        self,
        sql: Annotated[str, Field(description="One SQL statement, without parameters.")],
        max_rows: RowCount = DEFAULT_ROWS,
    ) -> str:
        """Run one SQL statement and return its rows as JSON; a note says if there are more."""
        reader = self.client.query(sql)
        try:
            if reader.affected is not None:
                return "done" if reader.affected < 0 else f"rows changed: {reader.affected:,}"
            limits = AnswerLimits(min(max_rows, self._limits.rows), self._limits.bytes)
            return format_rows(reader.schema, reader, limits)
        finally:
            reader.cancel()

    @raise_tool_errors()
    def search(
        self,
        table: Annotated[str, Field(description="Name of the table to search.")],
        text: Annotated[str | None, Field(description="Words, or a phrase in double quotes.")] = None,
        text_column: Annotated[str | None, Field(description="Column with a text index.")] = None,
        vector: Annotated[list[float] | None, Field(description="The vector to be near to.")] = None,
        vector_of: Annotated[
            str | None,
            Field(description="In place of vector, a query for it: SELECT embedding FROM docs WHERE id = 7"),
        ] = None,
        vector_column: Annotated[str | None, Field(description="Column of vectors.")] = None,
        columns: Annotated[
            list[str] | None, Field(description="Columns to return beside the scores; all by default.")
        ] = None,
        where: Annotated[str | None, Field(description="SQL condition that rows must fulfil.")] = None,
        k: Annotated[int, Field(ge=1, description="Rows wanted, best first.")] = 10,
    ) -> str:
        """Find the best rows of a table by text, by vector (smaller _distance is nearer), or by both."""
        search = Search(table, text, text_column, vector, vector_of, vector_column, columns, where, k)
        return self.query(search.build_sql(), k)

    def _read(self, condition: str, system_table: str) -> list[dict[str, Any]]:
        rows = self.client.query(f"SELECT * FROM {system_table} {condition}").read_all()  # noqa: S608 - ours
        found: list[dict[str, Any]] = rows.to_pylist()
        return found


def format_description(told: dict[str, object]) -> str:
    """Return a JSON object with one key, or one item of a list of objects, a line."""
    lines = []
    for name, value in told.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in value) + "\n]"
        lines.append(f"{json.dumps(name)}: {text}")
    return "{" + ",\n".join(lines) + "}"


def create_server(gateway: Gateway, *, allows_writes: bool) -> MCPServer[None]:
    """Return the server with its tools."""
    server: MCPServer[None] = MCPServer(
        "lance-gateway",
        title="Lance Gateway",
        version=version("lance-gateway"),
        instructions=f"{_INSTRUCTIONS.strip()}\n{_WRITES if allows_writes else _READS}",
        log_level="WARNING",
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    writes = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
    for tool in (gateway.list_tables, gateway.describe_table, gateway.search, gateway.query):
        changes = allows_writes and tool == gateway.query
        server.add_tool(tool, annotations=writes if changes else reads, structured_output=False)
    return server
