"""What importing does not do."""

import subprocess
import sys

import pytest

_IMPORTED_WITHOUT_THREADS = """
import os, pathlib
import lance_gateway.gateway.server
names = [path.joinpath("comm").read_text() for path in pathlib.Path("/proc/self/task").iterdir()]
assert not [name for name in names if name.startswith("tokio")], names
"""


@pytest.mark.slow
@pytest.mark.soak
def test_to_import_the_gateway_starts_no_threads_of_datafusion() -> None:
    """They would not survive a fork: whoever forks workers imports first."""
    subprocess.run([sys.executable, "-c", _IMPORTED_WITHOUT_THREADS], check=True)
