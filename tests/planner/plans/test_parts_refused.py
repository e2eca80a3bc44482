"""Parts that somebody forged, or may not read, are refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, PreconditionError
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.plans.scan_parts import ScanPart
from tests.planner.parts_table import carried, offered, write
from tests.support.judging.principals import create_principal
from tests.support.lake.tables import bucketed, unpartitioned
from tests.support.processes.writer_process import WriterProcess


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda part: part.snapshot.regions[0].generations[0].__setattr__("path", "../../x"),
            "not a directory",
        ),
        (lambda part: part.snapshot.regions[0].__setattr__("region_id", b"../x"), "not a UUID"),
        (lambda part: part.snapshot.regions[0].wal_entries.add(first=1, count=1 << 40), "WAL entries"),
        (lambda part: part.snapshot.regions[0].generations.add(generation=1, path="x"), "must ascend"),
        (lambda part: part.__setattr__("number", 9), "part 9 of 3"),
        (lambda part: part.__setattr__("count", 1 << 30), "at most"),
        (lambda part: part.snapshot.__setattr__("base_version", 0), "version"),
    ],
)
def test_a_forged_description_is_refused(
    root: Path,
    writers: WriterProcess,
    open_engine: Callable[[Path], QueryEngine],
    change: Callable[[Any], None],
    words: str,
) -> None:
    written = write(root, writers, unpartitioned(("id",), 1))
    message = offered(open_engine(root).prepare("SELECT * FROM t"), 3).parts[0].to_message()
    change(message)
    with pytest.raises(InvalidInputError, match=words):
        ScanPart.from_message(message)
    written.table.close_writers()


def test_a_forged_tail_is_refused(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    """What is kept of it would be taken for what is kept of the whole tail, by everybody's queries."""
    written = write(root, writers, unpartitioned(("id",), 1))
    written.put(1, n=100)
    query = open_engine(root).prepare("SELECT * FROM t")
    part = offered(query, 2).parts[0]
    (region,) = part.snapshot.regions
    positions = region.wal_positions
    assert len(positions) >= 3
    for forged in ((positions[0], positions[-1]), (positions[-1], positions[0]), (positions[0], 1 << 60)):
        snapshot = replace(part.snapshot, regions=(replace(region, wal_positions=forged),))
        with pytest.raises(InvalidInputError, match="leaves out WAL entries between"):
            query.reopen(replace(part, snapshot=snapshot))
    written.table.close_writers()


@pytest.mark.slow
def test_a_restricted_table_is_neither_divided_nor_read_in_parts(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    written = write(root, writers, bucketed("id", 4, recorded=True))
    engine = open_engine(root)
    sql = "SELECT id, n, s FROM t"
    part = offered(engine.prepare(sql), 4).parts[0]
    for access in (TableAccess(row_filter="n < 5"), TableAccess(masks={"s": "'hidden'"})):
        query = engine.prepare(sql, access=create_principal(t=access))
        assert query.parts(4) is None
        with pytest.raises(PreconditionError, match="not read in parts"):
            query.execute_part(carried(part))
    with pytest.raises(NotFoundError):
        engine.prepare(sql, access=create_principal())
    written.table.close_writers()
