"""How much memory there is."""

import os
from pathlib import Path

import pytest

from gateway.machine import memory_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("text", "expected"), [("1073741824\n", 1 << 30), ("max\n", MACHINE), (None, MACHINE)]
)
def test_a_container_may_have_less_than_the_machine(tmp_path: Path, text: str | None, expected: int) -> None:
    limit = tmp_path / "memory.max"
    if text is not None:
        limit.write_text(text)
    assert memory_bytes(limit) == expected
