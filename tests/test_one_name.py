"""All that is installed and imported is below one name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sampling import sample


@pytest.mark.slow
@pytest.mark.parametrize("folder", sample(["pipeline", "planner", "gateway"], 1))
def test_folders_of_users_hide_nothing(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "__init__.py").write_text("raise ImportError('this is the user\\'s')\n")
    script = (
        "import lance_gateway.gateway.cli, lance_gateway.pipeline.source as source; print(source.__name__)"
    )
    command = [sys.executable, "-c", script]
    repository = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([".", repository])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "lance_gateway.pipeline.source\n"
