"""The JDK and the JDBC drivers of these tests: what is there, what is missing, and where it comes from.

`python -m tests.jdbc.drivers` (part of `make test`) installs a JDK and Maven from the system's packages where
it may, and fetches the drivers from Maven Central. What cannot be had is named; the tests then skip with
that reason, or fail where CI=true says that nothing may be missing.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import MappingProxyType

COORDINATES = "org.apache.arrow:flight-sql-jdbc-driver"
# Version -> SHA-256 of the jar: the newest on Maven Central first, then the first of its major version.
DRIVERS = MappingProxyType(
    {
        "18.3.0": "3f418b46c880e263558c5de669bdbede2c5d4375527ced116fb29f795b03704c",
        "18.0.0": "ad86643f918d19d9594ef442301330211ff45a9b4229c5718c26651325fd0f20",
    }
)
NEWEST = next(iter(DRIVERS))
"""That of `make test`; `make soak` fetches the others, and the frameworks, when it needs them."""
FOLDER = Path(__file__).parents[2] / ".jdbc-drivers"
OLDEST_JDK = 17
FRAMEWORKS = Path(__file__).with_name("frameworks") / "pom.xml"

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_PACKAGED_JDKS = ("openjdk-17-jdk-headless", "openjdk-21-jdk-headless")
_PACKAGED_BROWSER = ("chromium", "chromium-driver")
_PATIENCE_SECONDS = 140


class MissingError(Exception):
    """Something that the tests need cannot be had; the text says what and how to get it."""


@cache
def jdk() -> Path:
    """The folder of `java` and `javac`: that of JAVA_HOME, else the one on PATH.

    Raises:
        MissingError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    compiler = shutil.which("javac", path=f"{home}/bin" if home else None)
    wanted = f"a JDK of version {OLDEST_JDK} or newer (Debian and Ubuntu: apt install {_PACKAGED_JDKS[0]})"
    if compiler is None:
        raise MissingError(f"there is no javac in {'JAVA_HOME' if home else 'PATH'}: install {wanted}")
    told = subprocess.run([compiler, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"javac (\d+)", told.stdout + told.stderr)
    if version is None or int(version[1]) < OLDEST_JDK:
        raise MissingError(f"{compiler} says {(told.stdout + told.stderr).strip()!r}: install {wanted}")
    return Path(compiler).parent


def jar(version: str) -> Path:
    """The checked jar of a driver; fetched when it is not there yet.

    Raises:
        MissingError: Maven or Maven Central is out of reach, or the file is not the one that is pinned.
    """
    path = FOLDER / f"flight-sql-jdbc-driver-{version}.jar"
    if not path.exists():
        _fetch(version)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != DRIVERS[version]:
        raise MissingError(f"{path} has the SHA-256 {found}, not {DRIVERS[version]}: delete it and try again")
    return path


def frameworks() -> list[Path]:
    """The jars of the frameworks that are tested, and of what they need; fetched if they are not there.

    Raises:
        MissingError: Maven or Maven Central is out of reach.
    """
    folder = _frameworks_folder()
    if not folder.exists():
        FOLDER.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as partial:
            _run_maven(
                "the frameworks", "copy-dependencies", f"-f{FRAMEWORKS}", f"-DoutputDirectory={partial}/jars"
            )
            with contextlib.suppress(FileExistsError):  # another process was faster
                Path(partial, "jars").rename(folder)
    return sorted(folder.glob("*.jar"))


def _frameworks_folder() -> Path:
    return FOLDER / f"frameworks-{hashlib.sha256(FRAMEWORKS.read_bytes()).hexdigest()[:12]}"


def _fetch(version: str) -> None:
    """Copies a driver from Maven Central, or wherever the user's Maven settings mirror it."""
    driver = f"{COORDINATES}:{version}"
    _run_maven(f"the driver {driver}", "copy", f"-Dartifact={driver}", f"-DoutputDirectory={FOLDER}")


def _run_maven(wanted: str, goal: str, *arguments: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingError(f"Maven fetches {wanted}: install it (apt install maven)")
    command = [maven, "--batch-mode", "--quiet", "--update-snapshots", f"{_PLUGIN}:{goal}", *arguments]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS, cwd=FOLDER.parent
        )
    except subprocess.TimeoutExpired:
        raise MissingError(f"Maven did not fetch {wanted} within {_PATIENCE_SECONDS} seconds") from None
    if run.returncode:
        complaint = next((line for line in run.stdout.splitlines() if "ERROR" in line), run.stderr)
        raise MissingError(f"Maven could not fetch {wanted}: {complaint.strip()}")


def _install() -> None:
    """Installs JDK, Maven and the browser of the console's tests with apt, where it needs no password."""
    try:
        jdk()
        needs_jdk = False
    except MissingError:
        needs_jdk = True
    wanted = FOLDER / f"flight-sql-jdbc-driver-{NEWEST}.jar"
    needs_maven = shutil.which("mvn") is None and not wanted.exists()
    needs_browser = shutil.which("chromedriver") is None
    if not (needs_jdk or needs_maven or needs_browser) or shutil.which("apt-get") is None:
        return
    sudo = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if sudo and subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode:
        return
    subprocess.run([*sudo, "apt-get", "update", "-qq"], check=False)
    packages = [next(filter(_is_packaged, _PACKAGED_JDKS), _PACKAGED_JDKS[0])] if needs_jdk else []
    packages += ["maven"] if needs_maven else []
    packages += [one for one in _PACKAGED_BROWSER if needs_browser and _is_packaged(one)]
    sys.stdout.write(
        f"installing {' and '.join(packages) or 'nothing'} for the tests of JDBC and the console\n"
    )
    sys.stdout.flush()
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    subprocess.run([*sudo, "env", "DEBIAN_FRONTEND=noninteractive", *install], check=False)
    jdk.cache_clear()


def _is_packaged(package: str) -> bool:
    return not subprocess.run(["apt-cache", "show", package], capture_output=True, check=False).returncode


def main() -> int:
    """Gets everything that can be had; the exit status tells whether nothing is missing."""
    try:
        _install()
        jdk()
        jar(NEWEST)
    except (MissingError, FileNotFoundError) as error:
        sys.stderr.write(f"The JDBC tests cannot run: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
