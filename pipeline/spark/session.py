"""Finds or starts a Spark session, and keeps what its JVM says away from a command's stderr."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError, UnavailableError
from lance_gateway.pipeline.spark.archive import FOLDER, PYTHON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STDERR = 2
_MOST = 2000


@dataclass(frozen=True)
class JvmLog:
    """The stderr of a JVM."""

    file: IO[bytes]

    def last_words(self) -> str:
        """Its last line, for a message; empty where there is none."""
        self.file.seek(max(0, self.file.seek(0, os.SEEK_END) - _MOST))
        lines = self.file.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1].strip()})" if lines else ""


@contextmanager
def quiet_jvm(path: str) -> Iterator[JvmLog]:
    """Start processes in this block whose stderr is a file instead of this process's.

    Args:
        path: of the file, which is appended to; empty for one that nobody sees and that ends with them.

    Raises:
        InvalidInputError: the file can't be written.
    """
    try:
        file: IO[bytes] = Path(path).open("a+b") if path else tempfile.TemporaryFile()  # noqa: SIM115 - below
    except OSError as error:
        raise InvalidInputError(f"Spark's log can't be written to {path!r}: {error.strerror}") from error
    with file:
        sys.stderr.flush()
        kept = os.dup(_STDERR)
        os.dup2(file.fileno(), _STDERR)
        try:
            yield JvmLog(file)
        finally:
            sys.stderr.flush()
            os.dup2(kept, _STDERR)
            os.close(kept)


LOG = "LANCE_GATEWAY_SPARK_LOG"
DEFAULT_MASTER = "local[*]"
_OLDEST_JDK = 17
_TRIES = 4
"""Of a task on a local master, which Spark would not try again; as clusters do."""
_INSTALL = "install a JDK of version 17 or 21 (Debian and Ubuntu: apt install openjdk-17-jre-headless)"
_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")
_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}
_LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def find_session(
    master: str | None = None, *, settings: Mapping[str, str] | None = None, app: str = "lance-gateway"
) -> SparkSession:
    """The session that is there, or a new one.

    Args:
        master: of a new session; None for what spark-submit says, else all cores of this machine.
        settings: of a new session, over what is set here.
        app: its name.

    Raises:
        PreconditionError: pyspark or a JDK is missing, or the session is one of Spark Connect.
        UnavailableError: Spark does not start.
    """
    check_pyspark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - optional

    active = SparkSession.getActiveSession()
    if active is not None:
        return _classic(active)
    builder = SparkSession.builder.appName(app)
    for key, value in {**_SETTINGS, **_of_master(master), **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        with warnings.catch_warnings():
            # The JVM's process is forked, and becomes another program at once: nothing of Lance runs there.
            warnings.filterwarnings("ignore", "lance is not fork-safe")
            return _classic(builder.getOrCreate())
    except PreconditionError:
        raise
    except Exception as error:
        reason = str(error).strip().split("\n", 1)[0][:500]
        raise UnavailableError(
            f"Spark does not start on {master or 'the master that spark-submit names'}: {reason}"
        ) from error


@contextmanager
def open_session(
    master: str | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    archive: str | None = None,
    app: str = "lance-gateway",
) -> Iterator[SparkSession]:
    """Find a session as `find_session` does, and stop it after the block if it was started for it.

    The stderr of its JVM goes to the file that `LANCE_GATEWAY_SPARK_LOG` names, or nowhere.

    Args:
        master: as `find_session`.
        settings: as `find_session`.
        archive: file with the Python of executors, as `lance-gateway pipeline archive` writes it; None where
            they have one.
        app: as `find_session`.

    Raises:
        InvalidInputError: there is no such archive, or there are no executors to ship it to.
        PreconditionError: as `find_session`.
        UnavailableError: Spark does not start.
    """
    settings = {**_ship(archive, master), **(settings or {})}
    is_new = not _is_running()
    with quiet_jvm(os.environ.get(LOG, "")) as log:
        try:
            found = find_session(master, settings=settings, app=app)
        except UnavailableError as error:
            raise UnavailableError(f"{error}{log.last_words()}") from error
    try:
        yield found
    finally:
        if is_new:
            found.stop()


def is_submitted() -> bool:
    """Whether spark-submit started this process, and a JVM with it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_pyspark() -> None:
    """Make sure that pyspark is there, and pandas, without which it takes no Arrow.

    Raises:
        PreconditionError: it is not.
    """
    for name in ("pyspark", "pandas"):
        if importlib.util.find_spec(name) is None:
            raise PreconditionError(
                f"this needs Spark, but {name} is not installed: pip install 'lance-gateway[spark]'"
            )


def check_java() -> None:
    """Make sure that a JVM for Spark can be started.

    Raises:
        PreconditionError: there is none, or it is not one for Spark.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if java is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java in PATH"
        raise PreconditionError(f"Spark needs a JDK, but {where}: {_INSTALL}, or set JAVA_HOME")
    told = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"java\.base@(\d+)", told.stdout)
    if found is None or int(found[1]) < _OLDEST_JDK:
        which = f"version {found[1]}" if found else "too old, or does not start"
        raise PreconditionError(f"Spark needs a newer JDK, but {java} is {which}: {_INSTALL}")
    if "jdk.incubator.vector@" not in told.stdout:
        raise PreconditionError(
            f"Spark needs the module jdk.incubator.vector, which {java} lacks: {_INSTALL}"
        )


def _of_master(master: str | None) -> dict[str, str]:
    """Settings that follow from where Spark runs; checks that a JVM can be started."""
    if is_submitted():
        return {} if master is None else {"spark.master": master}
    check_java()
    master = master or DEFAULT_MASTER
    # Of executors: pyspark would take the first python3 on their path, which seldom has the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = _LOCAL.fullmatch(master)
    if local is None:
        return {"spark.master": master}
    # Read when the JVM binds its ports: a machine's own name may not resolve.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {"spark.master": f"local[{local[1] or 1},{_TRIES}]", **_LOCAL_SETTINGS}


def _ship(archive: str | None, master: str | None) -> dict[str, str]:
    """Settings by which executors unpack an archive, whose Python they start from then on."""
    if archive is None:
        return {}
    if not is_submitted() and (master is None or master.startswith("local")):
        raise InvalidInputError(
            f"--archive {archive!r} is for the executors of a cluster: give --master, such as spark://host:7077"
        )
    is_remote = "://" in archive
    if not is_remote and not Path(archive).is_file():
        raise InvalidInputError(
            f"there is no archive {archive!r}: make it with lance-gateway pipeline archive {archive}"
        )
    os.environ["PYSPARK_PYTHON"] = PYTHON
    return {"spark.archives": f"{archive if is_remote else Path(archive).resolve()}#{FOLDER}"}


def _is_running() -> bool:
    check_pyspark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - optional

    return SparkSession.getActiveSession() is not None


def _classic(found: SparkSession) -> SparkSession:
    if not hasattr(found, "_jsparkSession"):
        raise PreconditionError(
            "jobs need a classic Spark session, and this is one of Spark Connect: run them by spark-submit"
        )
    return found
