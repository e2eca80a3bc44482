"""Titled data files: cases of a title and its parts, e.g. a statement and what it becomes.

    ## a title
    first part
    --
    second part

Blank lines around parts do not count.
"""

from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Case:
    title: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return self.title


def read_titled(name: str) -> list[Case]:
    """All cases of a file in `data/`."""
    return read_titled_file(DATA / name)


def read_titled_file(path: Path) -> list[Case]:
    """All cases of a file; titles must differ, so that they can name tests."""
    cases = []
    for block in path.read_text().split("\n## ")[1:]:
        title, _, text = block.partition("\n")
        cases.append(Case(title.strip(), tuple(part.strip("\n ") for part in text.split("\n--\n"))))
    titles = [case.title for case in cases]
    assert len(set(titles)) == len(titles), f"{path.name}: a title occurs twice"
    return cases
