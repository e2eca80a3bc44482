"""The checked-in message modules are what the compiler makes of their sources."""

import subprocess
import sys
from pathlib import Path

import pytest

from lance_gateway.protos import generate


@pytest.mark.slow
def test_the_checked_in_modules_are_up_to_date():
    done = subprocess.run(
        [sys.executable, "-m", "lance_gateway.protos.generate", "--check"],
        cwd=generate.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_module_that_differs_is_named(tmp_path: Path):
    generated = generate.compile_protos(tmp_path)
    changed = tmp_path / "lance_gateway/protos" / "mem_wal_pb2.py"
    changed.write_text(changed.read_text() + "# changed\n")
    assert generate.find_stale_files(tmp_path, generated) == (Path("lance_gateway/protos/mem_wal_pb2.py"),)


@pytest.mark.slow
def test_a_module_without_a_source_is_named(tmp_path: Path):
    generated = [path for path in generate.compile_protos(tmp_path) if path.name != "mem_wal_pb2.pyi"]
    assert generate.find_stale_files(tmp_path, generated) == (Path("lance_gateway/protos/mem_wal_pb2.pyi"),)
