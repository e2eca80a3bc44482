"""A table that has garbage."""

from pathlib import Path

import pytest

from tests.support.cleaning import Kept
from tests.support.writer_process import WriterProcess


@pytest.fixture
def kept(root: Path, writers: WriterProcess) -> Kept:
    """Generations 1 and 2 are merged, 3 is not, and one row is in the log alone."""
    made = Kept.create(root, writers)
    made.generation("first")
    made.generation("second")
    made.merge(2)
    made.generation("third")
    made.put({9: "log"})
    return made
