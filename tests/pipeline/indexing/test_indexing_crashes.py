"""Upkeep that ends in the middle: the table answers as before, and the next run does what is left."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.pipeline.indexing import IndexPolicy, IndexSpec, build, maintain, needs
from lance_gateway.pipeline.jobs.runners import Threads
from lance_gateway.planner.engine import QueryEngine
from tests.pipeline.indexed_table import IndexedTable, check_lance, rows
from tests.planner.search.sources.replayed import asking
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

pytestmark = pytest.mark.slow

EAGER = IndexPolicy(max_spare_fragments=1)


class KilledError(Exception):
    """Stands for the end of the process."""


class Killed:
    """Ends a job at its n-th step: before its parts run, or once they all have."""

    def __init__(self, step: int, *, after: bool) -> None:
        self.left = step
        self.after = after

    def run(self, function: Callable[[Any], Any], parts: Sequence[Any], *, name: str) -> Iterator[Any]:
        if not self.left and not self.after:
            raise KilledError(name)
        results = list(Threads().run(function, parts, name=name))
        if not self.left:
            raise KilledError(name)
        self.left -= 1
        return iter(results)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("stable", sample([False, True], 1), ids=["addresses", "stable row ids"])
@pytest.mark.soak
def test_upkeep_killed_at_every_step(
    root: Path,
    writers: WriterProcess,
    open_engine: Callable[[Path], QueryEngine],
    stable: bool,
    after: bool,
):
    table = IndexedTable(root, writers, stable_row_ids=stable)
    for turn in (1, 2):
        table.turn(range(100 * turn, 100 * turn + 120), turn, deleted=range(10 * turn, 10 * turn + 8))
    table.put(*rows(range(40, 50), 2))
    ask = asking(open_engine(root))
    killed = []
    while needs(table.lake_table, EAGER):
        try:
            maintain(table.lake_table, EAGER, runner=Killed(len(killed), after=after))
        except KilledError as error:
            killed.append(str(error).split(maxsplit=1)[0])
        table.check(ask)
        check_lance(table.table.path)
    assert "index" in killed
    assert len(table.state().fragments) == 1
    assert all(one.is_current for one in table.state().indexes)


def test_a_build_that_is_killed_leaves_files_that_a_clean_up_removes(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
):
    table = IndexedTable(root, writers)
    table.turn(range(150, 260), 1)
    spec = IndexSpec("n", "BITMAP", "bits", segment_rows=50)
    directory = table.table.path / "_indices"
    before = {one.name for one in directory.iterdir()}
    with pytest.raises(KilledError):
        build(table.lake_table, spec, runner=Killed(0, after=True))
    orphans = {one.name for one in directory.iterdir()} - before
    assert len(orphans) > 1
    assert table.state().index("bits") is None
    ask = asking(open_engine(root))
    table.check(ask)
    build(table.lake_table, spec)
    table.table.dataset().cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert not orphans.intersection(one.name for one in directory.iterdir() if any(one.iterdir()))
    table.check(ask)
    check_lance(table.table.path)
