"""One table of a catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from lance_gateway.planner.system.catalogs.relations import Relation, Relations

Rows = Callable[[Relations], Iterator[dict[str, Any]]]
"""Yields rows; columns that are left out are NULL."""


@dataclass(frozen=True)
class RowsOfEach:
    """Rows of one relation after the other: those of the gateway's own relations are computed once.

    Attributes:
        describe: yields the rows of one.
    """

    describe: Callable[[Relation], Iterator[dict[str, Any]]]


_TYPES: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "text": pa.string(),
        "bool": pa.bool_(),
        "int2": pa.int16(),
        "int4": pa.int32(),
        "int8": pa.int64(),
        "oid": pa.int64(),
        "float4": pa.float32(),
        "texts": pa.list_(pa.string()),
        "numbers": pa.list_(pa.int16()),
        "oids": pa.list_(pa.int64()),
    }
)


@dataclass(frozen=True, eq=False)
class CatalogTable:
    """A table whose rows are computed from what a principal sees.

    Attributes:
        catalog: the schema in which it is.
        name: within the schema.
        schema: its columns.
        rows: all of them, or those of each relation.
    """

    catalog: str
    name: str
    schema: pa.Schema
    rows: Rows | RowsOfEach

    def read(self, relations: Relations) -> pa.Table:
        """Return all rows."""
        if not isinstance(self.rows, RowsOfEach):
            return pa.Table.from_pylist(list(self.rows(relations)), self.schema)
        own = tuple(one for one in relations.all if one.is_own)
        others = _describe_each(self, [one for one in relations.all if not one.is_own])
        return pa.concat_tables([others, _describe_own(self, own)])


def _describe_each(table: CatalogTable, relations: Sequence[Relation]) -> pa.Table:
    assert isinstance(table.rows, RowsOfEach)  # noqa: S101 - for those alone it is called
    return pa.Table.from_pylist([row for one in relations for row in table.rows.describe(one)], table.schema)


# By principals who see other system tables, and by catalogs.
_describe_own = lru_cache(maxsize=16)(_describe_each)


def make_tables(
    catalog: str, columns: str, rows: Mapping[str, Rows | RowsOfEach]
) -> Mapping[str, CatalogTable]:
    """Return name -> table.

    Args:
        catalog: the schema in which they are.
        columns: a paragraph for each table, `name = column column:type ..`; later lines are indented.
        rows: name -> rows of the tables that have any.
    """
    tables = {}
    for paragraph in re.split(r"\n(?! )", columns.strip()):
        name, _, listed = paragraph.partition(" = ")
        schema = parse_columns(listed)
        tables[name] = CatalogTable(catalog, name, schema, rows.get(name, lambda _: iter(())))
    return MappingProxyType(tables)


def parse_columns(text: str) -> pa.Schema:
    """Return a schema; the names of columns with another type than text have it behind a colon.

    >>> parse_columns("oid:oid nspname").types
    [DataType(int64), DataType(string)]
    """
    fields = []
    for word in text.split():
        name, _, kind = word.partition(":")
        fields.append(pa.field(name, _TYPES[kind or "text"]))
    return pa.schema(fields)
