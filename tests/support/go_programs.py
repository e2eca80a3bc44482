"""Programs that tests run, built by Go where they are not installed."""

import os
import shutil
import subprocess
from pathlib import Path


def find_or_build(name: str, package: str, folder: Path) -> str:
    """Return the path of a program; one that is not installed is built, which takes minutes the first time.

    Args:
        name: of the program.
        package: that it is built from, with its version.
        folder: where it is built.
    """
    installed = shutil.which(name)
    if installed is not None:
        return installed
    environment = {**os.environ, "GOBIN": str(folder)}
    subprocess.run(["go", "install", package], env=environment, check=True)
    return str(folder / name)
