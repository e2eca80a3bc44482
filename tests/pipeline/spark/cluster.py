"""A standalone cluster of Spark on this machine, of which any process can be killed."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil
import pyspark

_HOME = Path(pyspark.__file__).parent
_PROJECT = Path(__file__).parents[3]
_DEPLOY = "org.apache.spark.deploy"
_PATIENCE_SECONDS = 60
_LOOK_SECONDS = 0.02
_OPTIONS = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of JVMs that run for seconds."""
_DEFAULTS = f"""
spark.driver.defaultJavaOptions   {_JAVA}
spark.executor.defaultJavaOptions {_JAVA}
spark.driver.bindAddress     127.0.0.1
spark.driver.host            127.0.0.1
spark.ui.enabled             false
spark.executor.memory        512m
spark.speculation            true
spark.speculation.interval   50ms
spark.speculation.multiplier 1.01
spark.speculation.quantile   0.25
"""
"""Of every job: a task that is a little slower than others runs twice."""


class Daemon:
    """A master or a worker; ready once it has said so."""

    def __init__(self, kind: str, environment: dict[str, str], ready: str, *arguments: str) -> None:
        self._child = subprocess.Popen(
            [str(_HOME / "bin" / "spark-class"), f"{_DEPLOY}.{kind}", *_OPTIONS, *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._child.stderr is not None
        said: list[str] = []
        for line in self._child.stderr:
            said.append(line)
            found = re.search(ready, line)
            if found is not None:
                self.found = found[0]
                break
        else:
            raise RuntimeError(f"{kind} did not start: {''.join(said)[-3000:]}")
        self._drain = threading.Thread(target=self._child.stderr.read, daemon=True)
        self._drain.start()

    def children(self) -> list[psutil.Process]:
        """The executors of a worker."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._child.pid).children()
        return []

    def kill(self) -> None:
        """End the process and its executors at once, as a power cut would."""
        with suppress(psutil.NoSuchProcess):
            for one in (*psutil.Process(self._child.pid).children(recursive=True), self._child):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        self._child.wait(timeout=_PATIENCE_SECONDS)
        self._drain.join(timeout=_PATIENCE_SECONDS)
        assert self._child.stderr is not None
        self._child.stderr.close()


@dataclass(frozen=True)
class Ended:
    """How a job ended: its status, and what it wrote."""

    status: int
    stdout: str
    stderr: str


class SparkCluster:
    """A master and two workers of one core each.

    Attributes:
        master: URL of the cluster.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "conf").mkdir(parents=True)
        (folder / "conf" / "spark-defaults.conf").write_text(_DEFAULTS)
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(_HOME),
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_JAVA_OPTS": _JAVA,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "PYTHONPATH": str(_PROJECT),
        }
        self._environment.pop("PYSPARK_PYTHON", None)
        self._master = Daemon("master.Master", self._environment, r"spark://127\.0\.0\.1:\d+")
        self.master = self._master.found
        self._workers: list[Daemon] = []
        try:
            for _ in range(2):
                self.add_worker()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add_worker(self) -> None:
        """Start another worker, and wait until the master knows it."""
        work = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / "work"))
        worker = Daemon("worker.Worker", self._environment, "Successfully registered", *work, self.master)
        self._workers.append(worker)

    def kill_worker(self) -> None:
        """End the oldest worker that runs something, with its executor, and start another in its place."""
        worker = next((one for one in self._workers if one.children()), self._workers[0])
        self._workers.remove(worker)
        worker.kill()
        self.add_worker()

    def busy_executors(self) -> list[psutil.Process]:
        """Executors that have started a Python."""
        found = []
        for one in (child for worker in self._workers for child in worker.children()):
            with suppress(psutil.NoSuchProcess):
                if one.children():
                    found.append(one)
        return found

    def stop(self) -> None:
        """End all processes of the cluster."""
        for one in (*self._workers, self._master):
            one.kill()

    def run(
        self,
        arguments: Sequence[str],
        meanwhile: Callable[["psutil.Process"], bool] = lambda _: True,
        **environment: str,
    ) -> Ended:
        """Run `lance-gateway pipeline` with these arguments and --master.

        Args:
            arguments: of the command.
            meanwhile: called with the command's process again and again, until it says that it did its deed.
            environment: variables of the command, over the cluster's.
        """
        command = [sys.executable, "-m", "lance_gateway.pipeline", *arguments, "--master", self.master]
        child = subprocess.Popen(
            command,
            env={**self._environment, **environment},
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        process, is_done = psutil.Process(child.pid), False
        try:
            while not is_done and child.poll() is None:
                is_done = meanwhile(process)
                with suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=_LOOK_SECONDS)
            stdout, stderr = child.communicate()
        finally:
            with child:
                child.kill()
        return Ended(child.returncode, stdout, stderr)
