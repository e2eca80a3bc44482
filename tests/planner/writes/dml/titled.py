"""The titled data files of this directory; see `tests.planner.titled`."""

from pathlib import Path

from tests.planner import titled
from tests.planner.titled import Case

__all__ = ["Case", "read_titled"]

DATA = Path(__file__).parent / "data"


def read_titled(name: str) -> list[Case]:
    """All cases of a file in `data/`."""
    return titled.read_titled_file(DATA / name)
