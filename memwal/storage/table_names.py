"""Names of tables in a lake, and where their files are.

The table ``orders`` is in ``<root>/orders.lance``, and ``sales.orders`` in ``<root>/sales/orders.lance``.
"""

from __future__ import annotations

from typing import Final, Self

from lance_gateway.memwal.errors import InvalidInputError

CATALOG: Final = "lance"
"""The one catalog."""
MAIN_SCHEMA: Final = "main"
"""The schema of the tables in the root directory itself."""
TABLE_SUFFIX: Final = ".lance"
VIEW_SUFFIX: Final = ".view.sql"
TEMPORARY: Final = "pg_temp"
"""What a session calls the schema of its temporary tables, whose own name begins so."""
_TEMPORARY_PREFIX: Final = f"{TEMPORARY}_"


def is_temporary_schema(schema: str) -> bool:
    """Return whether a schema, if it exists, has the temporary tables of a session."""
    return schema.startswith(_TEMPORARY_PREFIX)


class SearchPath(str):
    """The current schema of a session, before which its temporary tables are looked at.

    The text is the name of the current schema.

    Attributes:
        temporary: schema of the temporary tables and views.
        names: their names.
    """

    __slots__ = ("names", "temporary")

    temporary: str
    names: frozenset[str]

    def __new__(cls, schema: str, temporary: str, names: frozenset[str]) -> Self:
        """Put temporary tables before a schema."""
        path = super().__new__(cls, schema)
        path.temporary = temporary
        path.names = names
        return path

    def __getnewargs__(self) -> tuple[str, str, frozenset[str]]:  # type: ignore[override]
        """Return what another process makes the path of."""
        return str(self), self.temporary, self.names

    def locate(self, table: str) -> str:
        """Return the schema of a table that is named without one."""
        return self.temporary if table in self.names else str(self)


class TableName(str):
    """The name of a table or view in its catalog, as one text that no other name has.

    The text is the name itself in the schema `main`, and ``schema.name`` in others; a part with a dot or a
    double quote is in double quotes. So names of `main` are equal to plain texts, and lists are ordered by
    schema and name.

    >>> TableName("orders"), TableName("orders", "sales"), TableName("a.b", "sales")
    ('orders', 'sales.orders', 'sales."a.b"')

    Attributes:
        schema: name of the schema.
        table: name within the schema.
    """

    __slots__ = ("schema", "table")

    schema: str
    table: str

    def __new__(cls, table: str, schema: str = MAIN_SCHEMA) -> Self:
        """Make the name of a table in a schema, or in the one in which a path has it."""
        if isinstance(schema, SearchPath):
            schema = schema.locate(table)
        parts = (table,) if schema == MAIN_SCHEMA else (schema, table)
        name = super().__new__(cls, ".".join(map(_write_part, parts)))
        name.schema = schema
        name.table = table
        return name

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """Return what another process makes the name of."""
        return self.table, self.schema

    @staticmethod
    def parse(text: str, schema: str = MAIN_SCHEMA) -> TableName:
        """Read a name as it is written on a command line or in a policy.

        Args:
            text: one to three parts, each in double quotes or without dots.
            schema: of a name with one part.

        Raises:
            InvalidInputError: the text has more parts, or another catalog.
        """
        if isinstance(text, TableName):
            return text
        *qualifiers, table = split_name(text)
        if len(qualifiers) > 2 or (len(qualifiers) == 2 and qualifiers[0] != CATALOG):
            msg = f"{text!r} names no table: write name, schema.name, or parts with dots in double quotes"
            raise InvalidInputError(msg)
        return TableName(table, qualifiers[-1] if qualifiers else schema)

    @staticmethod
    def qualify(table: str, qualifier: str, schema: str) -> TableName:
        """Return the name of a table, as a statement writes it.

        Args:
            table: name within its schema.
            qualifier: the schema; "" for the one that the statement is in.
            schema: in which the statement is.
        """
        if qualifier == TEMPORARY and isinstance(schema, SearchPath):
            return TableName(table, schema.temporary)
        return TableName(table, qualifier or schema)

    @property
    def is_temporary(self) -> bool:
        """Whether it is that of a temporary table or view of some session."""
        return is_temporary_schema(self.schema)

    @property
    def sql(self) -> str:
        """The name with its schema as an SQL text, which means the same in every session."""
        return f"{_quote(self.schema)}.{_quote(self.table)}"

    @property
    def path(self) -> str:
        """Path of the table below the root, without a suffix."""
        return self.table if self.schema == MAIN_SCHEMA else f"{self.schema}/{self.table}"

    @property
    def directory(self) -> str:
        """Path of the table's directory below the root."""
        return f"{self.path}{TABLE_SUFFIX}"


def split_name(text: str) -> tuple[str, ...]:
    """Split a name with dots into its parts; dots in double quotes don't count.

    Raises:
        InvalidInputError: a double quote is not closed, or stands behind a closed one.
    """
    if "." not in text and '"' not in text:
        return (text,)
    parts: list[str] = []
    rest = text
    while True:
        part, rest = _take_quoted(text, rest[1:]) if rest.startswith('"') else _take_plain(rest)
        parts.append(part)
        if not rest:
            return tuple(parts)
        rest = rest[1:]


def _take_plain(rest: str) -> tuple[str, str]:
    part, dot, behind = rest.partition(".")
    return part, dot + behind


def _take_quoted(text: str, rest: str) -> tuple[str, str]:
    part = ""
    while True:
        before, quote, rest = rest.partition('"')
        part += before
        if rest.startswith('"'):
            part, rest = f'{part}"', rest[1:]
        elif quote and rest[:1] in {"", "."}:
            return part, rest
        else:
            msg = f"{text!r} names no table: a double quote is not closed, or no dot follows it"
            raise InvalidInputError(msg)


def _write_part(part: str) -> str:
    return _quote(part) if "." in part or '"' in part else part


def _quote(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'
