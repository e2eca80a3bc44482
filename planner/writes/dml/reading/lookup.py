"""Rows of a table by their keys, as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from execnodes import KeySet
from memwal.errors import InvalidInputError
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings, Shortcut
from planner.sql.tokens import quote
from planner.writes.dml.statement.target import Target

if TYPE_CHECKING:
    from planner.access.rights import Access

__all__ = [
    "distinct_keys",
    "key_text",
    "last_of_key",
    "not_among",
    "repeated_key",
    "rows_of_keys",
    "strong",
]

MANY_KEYS = 4096
"""More keys than this are found by one scan."""
_PLACE = "place#"


def strong(settings: SessionSettings) -> SessionSettings:
    """Settings under which a statement reads what it is about to change: the newest rows."""
    return replace(settings, consistency="strong", max_staleness_ms=0, endpoints=1, types="arrow")


def rows_of_keys(
    engine: QueryPlanner,
    target: Target,
    keys: pa.Table,
    columns: Sequence[str],
    settings: SessionSettings,
    access: Access,
    control: RunControl,
) -> pa.Table:
    """The rows that have some keys, in any order.

    Args:
        engine: that reads.
        target: table.
        keys: distinct and complete; key columns in key order.
        columns: that are wanted.
        settings: of the session.
        access: rights of the principal.
        control: of the execution.

    Raises:
        LanceGatewayError: something can't be read.
    """
    schema = pa.schema([target.base.schema.field(name) for name in columns])
    if not keys.num_rows:
        return schema.empty_table()
    wanted = KeySet(keys.cast(pa.schema([target.base.schema.field(name) for name in target.key])))
    looks_up = settings.shortcuts.issuperset((Shortcut.WRITE_LOOKUPS, Shortcut.KEY_LOOKUPS))
    if keys.num_rows > MANY_KEYS or not looks_up:
        return _scanned(engine, target, keys, columns, settings, access, control).cast(schema)
    found = engine.rows_of_keys(target.name, wanted, columns, strong(settings), access, control)
    return pa.Table.from_batches(found, schema)


def _scanned(
    engine: QueryPlanner,
    target: Target,
    keys: pa.Table,
    columns: Sequence[str],
    settings: SessionSettings,
    access: Access,
    control: RunControl,
) -> pa.Table:
    """The same by reading the whole table: each key that is looked up costs, and a scan costs once."""
    names = list(dict.fromkeys((*target.key, *columns)))
    sql = f"SELECT {', '.join(map(quote, names))} FROM {quote(target.name)}"  # noqa: S608 - quoted names
    chosen = strong(settings)
    reader = engine.prepare(sql, chosen, access).execute((), chosen, control)
    wanted = keys.cast(pa.schema([reader.schema.field(name) for name in target.key]))
    found = [reader.schema.empty_table()]
    first = target.key[0]
    values = wanted.column(first).combine_chunks()
    for batch in reader:
        some = pa.table(batch.filter(pc.is_in(batch.column(first), value_set=values)))
        if len(target.key) > 1 and some.num_rows:
            at = pa.array(range(some.num_rows), pa.int64())
            held = some.select(list(target.key)).append_column(_PLACE, at)
            some = some.take(held.join(wanted, list(target.key), join_type="left semi").column(_PLACE))
        found.append(some)
    return pa.concat_tables(found).select(list(columns))


def repeated_key(rows: pa.Table, key: Sequence[str]) -> pa.Table | None:
    """One key that several rows have, as a table of one row; None where all differ."""
    counted = rows.select(list(key)).group_by(list(key)).aggregate([([], "count_all")])
    if counted.num_rows == rows.num_rows:
        return None
    return counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, 1).select(list(key))


def key_text(keys: pa.Table) -> str:
    """The first key, for messages: id = 7."""
    (row,) = keys.slice(0, 1).to_pylist()
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())


def not_among(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose key no row of `others` has, in their order; of several with one key the first."""
    columns = list(key)
    numbered = rows.select(columns).append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    firsts = numbered.group_by(columns).aggregate([(_PLACE, "min")])
    if others.num_rows:
        known = others.select(columns).cast(pa.schema([rows.schema.field(name) for name in columns]))
        firsts = firsts.join(known, columns, join_type="left anti")
    return rows.take(firsts.column(f"{_PLACE}_min").sort())


def last_of_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Of several rows with one key the last, in their order."""
    numbered = rows.select(list(key)).append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    lasts = numbered.group_by(list(key)).aggregate([(_PLACE, "max")])
    if lasts.num_rows == rows.num_rows:
        return rows
    return rows.take(lasts.column(f"{_PLACE}_max").sort())


def distinct_keys(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys of rows, each once.

    Raises:
        InvalidInputError: one is NULL.
    """
    for name in key:
        if rows.column(name).null_count:
            msg = f"key column {name!r} is NULL in a row"
            raise InvalidInputError(msg)
    return rows.select(list(key)).group_by(list(key)).aggregate([]).select(list(key))
