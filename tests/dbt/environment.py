"""The environment in which dbt runs: its protobuf is older than that of the gateway.

`python -m tests.dbt.environment` (part of `make test`) makes it from the package index. The tests skip
without it, or fail where CI=true says that nothing may be missing.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ADAPTER = Path(__file__).parents[2] / "dbt-lance-gateway"
FOLDER = Path(__file__).parents[2] / ".dbt-environment"


class MissingError(Exception):
    """dbt cannot be installed; the text says why."""


def find_environment() -> Path:
    """The virtual environment with all that the adapter needs; made when it is not there yet.

    Raises:
        MissingError: the package index is out of reach.
    """
    project = (ADAPTER / "pyproject.toml").read_bytes()
    described = tomllib.loads(project.decode())
    needed = [*described["project"]["dependencies"], *described["build-system"]["requires"]]
    path = FOLDER / hashlib.sha256(f"{sys.version} {needed}".encode()).hexdigest()[:12]
    complete = path / "complete"
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(path, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(path))
            _install(path, *needed)
            complete.touch()
    return path


def install_adapter(environment: Path, folder: Path) -> Path:
    """The directory of the adapter's package, built from a copy of its sources as pip would for a user."""
    source, target = folder / "source", folder / "site"
    shutil.copytree(ADAPTER, source)
    _install(
        environment, "--no-deps", "--no-build-isolation", "--no-index", f"--target={target}", str(source)
    )
    return target


def _install(environment: Path, *arguments: str) -> None:
    pip = (
        str(environment / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
    )
    _run(*pip, *arguments)


def _run(*command: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise MissingError(f"{' '.join(command)} failed: {run.stderr.strip()[-2000:]}")


def main() -> int:
    """Make the environment; the exit status tells whether it is there."""
    try:
        find_environment()
    except MissingError as error:
        sys.stderr.write(f"The tests of dbt cannot run: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
