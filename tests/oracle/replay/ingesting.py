"""Batches of rows that Spark brings in, and what they must do to the oracle's rows."""

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lance_gateway.pipeline.ingesting.options import IngestOptions
from lance_gateway.pipeline.jobs.lake import LakeTable
from tests.oracle.answers.predicates import Draw, value_of
from tests.oracle.replay.changes import Target
from tests.oracle.replay.model import Cells, Key
from tests.support.lake.ingesting import Batch, build_table

DELETED = "_gone"
SEQUENCE = "_sequence"
JOB = "spark"
MOST_ROWS = 6
TRIES = 3
"""How often a task runs at most."""


def batch(
    draw: Draw, target: Target, table: LakeTable, number: int, memtable_rows: int
) -> tuple[Batch, dict[Key, Cells | None]]:
    """Rows of a few keys, some of them twice, some deleting; with what is newest of each in the end.

    Args:
        memtable_rows: that other writers of the table can hold.
    """
    deletes = draw(st.booleans(), label="some rows delete")
    rows = [
        _row(draw, target, at, deletes=deletes) for at in range(draw(st.integers(1, MOST_ROWS), label="rows"))
    ]
    shuffled = draw(st.permutations(rows)) if rows else rows
    schema = pa.schema([(one.name, one.type) for one in target.columns])
    schema = schema.append(pa.field(SEQUENCE, pa.int32()))
    if deletes:
        schema = schema.append(pa.field(DELETED, pa.bool_()))
    # What is full is flushed in the background, and nobody waits for that who does not flush in the end.
    flush = memtable_rows <= MOST_ROWS * TRIES or draw(st.booleans(), label="flush")
    options = IngestOptions(
        order_by=(SEQUENCE,),
        deleted_column=DELETED if deletes else None,
        flush=flush,
        chunk_rows=draw(st.sampled_from((1, 2, 100)), label="chunk_rows"),
        memtable_rows=draw(st.sampled_from((2, memtable_rows)), label="rows") if flush else memtable_rows,
    )
    newest: dict[Key, Cells | None] = {}
    for row in rows:
        key = tuple(row[name] for name in target.key)
        gone = bool(row.get(DELETED))
        newest[key] = None if gone else {one.field_id: row[one.name] for one in target.columns}
    return Batch(table, build_table(shuffled, schema), JOB, number, options), newest


def _row(draw: Draw, target: Target, sequence: int, *, deletes: bool) -> dict[str, Any]:
    key = {name: value_of(draw, target.column(name).type) for name in target.key}
    row: dict[str, Any] = {SEQUENCE: sequence}
    for one in target.columns:
        if one.name in key:
            row[one.name] = key[one.name]
        elif one.field_id in target.follows:
            row[one.name] = target.follows[one.field_id](key)
        else:
            row[one.name] = value_of(draw, one.type, nullable=True)
    if deletes:
        row[DELETED] = draw(st.booleans())
    return row
