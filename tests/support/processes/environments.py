"""Virtual environments of clients whose libraries don't go with those of the gateway.

Each belongs to a distribution in this repository. Its tests skip without it, or fail where CI=true says that
nothing may be missing.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


class MissingError(Exception):
    """What is needed cannot be installed; the text says why."""


@dataclass(frozen=True)
class Environment:
    """An environment with all that a distribution needs.

    Attributes:
        title: the client's name.
        source: the directory of the distribution.
        folder: where the environment is kept.
        pinned: further requirements, of libraries that the client's own list leaves open.
    """

    title: str
    source: Path
    folder: Path
    pinned: tuple[str, ...] = ()

    def find(self) -> Path:
        """The virtual environment; made when it is not there yet.

        Raises:
            MissingError: the package index is out of reach.
        """
        project = (self.source / "pyproject.toml").read_bytes()
        described = tomllib.loads(project.decode())
        needed = [*described["project"]["dependencies"], *described["build-system"]["requires"], *self.pinned]
        path = self.folder / hashlib.sha256(f"{sys.version} {needed}".encode()).hexdigest()[:12]
        complete = path / "complete"
        self.folder.mkdir(exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.exists():
                shutil.rmtree(path, ignore_errors=True)
                _run(sys.executable, "-m", "venv", str(path))
                _install(path, *needed)
                complete.touch()
        return path

    def find_or_skip(self) -> Path:
        """The virtual environment; skips the test, loudly, where it can't be had."""
        try:
            return self.find()
        except MissingError as error:
            if os.environ.get("CI") == "true":
                pytest.fail(f"CI=true, and the tests of {self.title} cannot run: {error}", pytrace=False)
            pytest.skip(f"the tests of {self.title} cannot run: {error}")

    def install(self, environment: Path, folder: Path) -> Path:
        """The directory of the packages, built from a copy of their sources as pip would for a user."""
        source, target = folder / "source", folder / "site"
        shutil.copytree(self.source, source)
        _install(
            environment, "--no-deps", "--no-build-isolation", "--no-index", f"--target={target}", str(source)
        )
        return target

    def main(self) -> int:
        """Make the environment; the exit status tells whether it is there."""
        try:
            self.find()
        except MissingError as error:
            sys.stderr.write(f"The tests of {self.title} cannot run: {error}\n")
            return 1
        return 0


def _install(path: Path, *arguments: str) -> None:
    python = str(path / "bin" / "python")
    _run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments)


def _run(*command: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise MissingError(f"{' '.join(command)} failed: {run.stderr.strip()[-2000:]}")
