"""A table that has garbage."""

from pathlib import Path

import pytest

from tests.support.lake.cleaning import CleanedTable
from tests.support.processes.writer_process import WriterProcess


@pytest.fixture
def kept(root: Path, writers: WriterProcess) -> CleanedTable:
    """Generations 1 and 2 are merged, 3 is not, and one row is in the log alone."""
    made = CleanedTable.create(root, writers)
    made.write_generation("first")
    made.write_generation("second")
    made.merge(2)
    made.write_generation("third")
    made.put({9: "log"})
    return made
