"""The tutorials run as they stand, and print what they show."""

from pathlib import Path

import pytest

from pipeline.spark.session import check_java
from tests.support.documented import DOCS, Reader, read_blocks

PAGES = sorted((DOCS / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs(page: Path, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.follow(page)


def test_every_tutorial_shows_what_it_prints() -> None:
    assert {page.stem for page in PAGES} == {"bi-analyst", "lancedb-user", "operator", "spark-engineer"}
    for page in PAGES:
        languages = [block.language for block in read_blocks(page)]
        assert languages.count("text") >= 3, page
