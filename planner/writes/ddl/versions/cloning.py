"""``CREATE TABLE c [DEEP] CLONE t [VERSION AS OF ..]``: a copy with rules and indexes (ADR 61)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lance.query import DocumentGranularity

from lance_gateway.memwal.base.comments import read_table_comment
from lance_gateway.memwal.creating.index_groups import encode_index_group, list_index_groups
from lance_gateway.memwal.creating.index_types import INDEX_TYPES
from lance_gateway.memwal.creating.key_index import list_default_columns
from lance_gateway.memwal.errors import LanceGatewayError, PreconditionError, UnsupportedError
from lance_gateway.memwal.storage.jobs import Job
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.sql.text.as_of import AS_OF_STARTS, AsOf, read_as_of
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.system.definitions import list_options
from lance_gateway.planner.tables.sources.base_table import BaseTable, DatasetIndex
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.indexes import IndexCall, build_index, list_index_names
from lance_gateway.planner.writes.ddl.statement import Reader, commit_change

_GRAPH_NAMES: Final[Mapping[str, str]] = {
    "max_connections": "m",
    "construction_ef": "ef_construction",
    "max_level": "max_level",
}


@dataclass(frozen=True, slots=True)
class CloneSource:
    """What a clone is made of.

    Attributes:
        name: of the table.
        as_of: its former state, or a branch; None for the newest state.
        written: the state, as it stands in the text; "" for the newest one.
    """

    name: TableName
    as_of: AsOf | None = None
    written: str = ""

    def render_query(self, columns: Sequence[str]) -> str:
        """Return the query for its rows."""
        return f"SELECT {', '.join(map(quote, columns))} FROM {self.name.sql} {self.written}"  # noqa: S608


def read_clone(reader: Reader) -> CloneSource | None:
    """Read ``[DEEP | SHALLOW] CLONE t [AS OF ..]``; return None if something else is next.

    Raises:
        UnsupportedError: the clone is to be shallow.
        LanceGatewayError: it has a syntax error.
    """
    if reader.is_at("SHALLOW", "CLONE"):
        msg = (
            "a shallow clone names files of its source, which go when the source is cleaned up, renamed or "
            "dropped, and takes no account of rows that are not merged: CREATE BRANCH shares files and keeps "
            "them, and CREATE TABLE .. DEEP CLONE copies the rows"
        )
        raise UnsupportedError(msg)
    if not reader.take("DEEP", "CLONE") and not reader.take("CLONE"):
        return None
    name, start = reader.table(), reader.at
    found = read_as_of(reader.text, start) if reader.word in AS_OF_STARTS else None
    if found is None:
        return CloneSource(name)
    as_of, reader.at = found
    text = reader.text
    return CloneSource(name, as_of, text.sql[text.start(start) : text.end(reader.at - 1) + 1])


def list_clone_options(source: SecuredTable) -> Mapping[str, str]:
    """Return the options of a table beyond those of LIKE; none to those who may not see them."""
    return list_options(source.base) if source.access.is_unrestricted else {}


def read_clone_comment(source: SecuredTable) -> str | None:
    """Return the comment on a table."""
    comment: str | None = read_table_comment(source.base.dataset)
    return comment


def build_indexes_of(source: SecuredTable, table: Table, job: Job) -> None:
    """Build the indexes of the source of a clone that the clone does not have.

    Raises:
        PreconditionError: one can't be built; the clone is there with all its rows.
    """
    if not source.access.is_unrestricted:
        return
    if not table.base().dataset.count_rows():
        return  # None is trained without rows.
    groups = list_index_groups(source.base.dataset)
    entries = {key: one for name, of in groups.items() for key, one in encode_index_group(name, of).items()}
    if entries:
        commit_change(table, "record indexes", lambda dataset: dataset.update_config(entries))
    for index in source.base.indexes:
        if index.name in list_index_names(table.base()) or _is_default(source.base, index):
            continue
        try:
            build_index(table, build_call_like(index), index.columns[0], index.name, replaces=False, job=job)
        except LanceGatewayError as error:
            msg = f"table {table.name!r} has all rows of {source.base.name!r}, and not all indexes: {error}"
            raise PreconditionError(msg) from error


def _is_default(base: BaseTable, index: DatasetIndex) -> bool:
    """Whether an index is one that the key of a table has by default, perhaps under another name."""
    return index.type.upper() == "BTREE" and index.columns[0] in list_default_columns(base.dataset.schema)


def build_call_like(index: DatasetIndex) -> IndexCall:
    """Return the call that builds an index like another one, with partitions as the rows need them."""
    kind = INDEX_TYPES[_find_type(index)]
    details: Mapping[str, Any] = index.details
    if not kind.is_vector:
        texts = {name: value for name, value in details.items() if value is not None}
        if "document_granularity" in texts:
            texts["document_granularity"] = DocumentGranularity(texts["document_granularity"])
        return IndexCall(kind, texts)
    graph = details.get("hnsw") or {}
    given: dict[str, Any] = {
        **(details.get("compression") or {}),
        **{ours: graph[theirs] for theirs, ours in _GRAPH_NAMES.items() if theirs in graph},
        "metric": str(details.get("metric_type", "l2")).lower(),
    }
    return IndexCall(kind, {name: given[name] for name in kind.parameters if name in given})


def _find_type(index: DatasetIndex) -> str:
    folded = index.type.upper()
    return {"LABELLIST": "LABEL_LIST"}.get(folded, folded)
