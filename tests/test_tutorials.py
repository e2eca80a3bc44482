"""The tutorials run as they stand, and print what they show."""

from pathlib import Path

import pytest

from tests.support.judging.documented import DOCS, Reader, read_blocks
from tests.support.processes.java import require_java
from tests.support.sampling import sample

TUTORIALS = DOCS / "tutorials"


@pytest.mark.parametrize("name", sample(["bi-analyst", "lancedb-user", "operator"], 1))
def test_a_tutorial_runs(name: str, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.follow(TUTORIALS / f"{name}.md")


@pytest.mark.soak
def test_the_tutorial_of_spark_runs(tmp_path: Path) -> None:
    require_java()
    with Reader(tmp_path) as reader:
        reader.follow(TUTORIALS / "spark-engineer.md")


def test_each_tutorial_is_among_these_and_shows_what_it_prints() -> None:
    pages = sorted(TUTORIALS.glob("*.md"))
    assert [page.stem for page in pages] == ["bi-analyst", "lancedb-user", "operator", "spark-engineer"]
    for page in pages:
        assert [block.language for block in read_blocks(page)].count("text") >= 3, page


def test_a_page_that_shows_something_else_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\necho right\n```\n\n```text\nwrong\n```\n")
    with Reader(tmp_path) as reader, pytest.raises(AssertionError, match=r"page\.md, line 5: .*\nwrong"):
        reader.follow(page)


def test_a_block_that_fails_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nanswer = 42\n```\n\n```python\nanswer / 0\n```\n")
    with (
        Reader(tmp_path) as reader,
        pytest.raises(AssertionError, match=r"page\.md, line 5: .*[^$]*ZeroDivision"),
    ):
        reader.follow(page)
