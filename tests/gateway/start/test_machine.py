"""How much memory there is, and how many files may be open."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.start.run_server import read_memory_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("text", "expected"), [("1073741824\n", 1 << 30), ("max\n", MACHINE), (None, MACHINE)]
)
def test_a_container_may_have_less_than_the_machine(tmp_path: Path, text: str | None, expected: int) -> None:
    limit = tmp_path / "memory.max"
    if text is not None:
        limit.write_text(text)
    assert read_memory_bytes(limit) == expected


@pytest.mark.slow
def test_as_many_files_may_be_open_as_the_user_may_have() -> None:
    """In a process of its own, which was given a low limit."""
    program = (
        "import resource; from gateway.start.run_server import allow_open_files; "
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)); allow_open_files(); "
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert told.split() == [str(hard)] * 2
