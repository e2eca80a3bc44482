"""Programs that tests of the soak tier run, fetched from their registries where they are not installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def find_or_build(name: str, package: str, folder: Path) -> str:
    """Return the path of a program of Go; one that is not installed is built, which takes minutes once.

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


def find_or_install(name: str, requirement: str, folder: Path) -> str:
    """Return the path of a program of the Python package index, with what it needs.

    Args:
        name: of the program.
        requirement: distribution that it is of, with its version.
        folder: of an environment that is made for it.
    """
    installed = shutil.which(name)
    if installed is not None:
        return installed
    programs = folder / "bin"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(programs / "pip"), "install", "--quiet", requirement], check=True)
    return str(programs / name)
