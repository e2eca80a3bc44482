"""A Java process with one driver, and what its probes tell."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.jdbc import drivers

SOURCES = Path(__file__).with_name("java")


def compile_probes(folder: Path, *more: Path, libraries: Sequence[Path] = (), warnings: str = "all") -> None:
    """Compile all probes, which need nothing but the JDK, and more sources that need libraries."""
    sources = [str(source) for source in (*sorted(SOURCES.glob("*.java")), *more)]
    command = [
        str(drivers.jdk() / "javac"),
        f"-Xlint:{warnings}",
        "-Werror",
        "-proc:none",
        "-encoding",
        "UTF-8",
    ]
    command += ["-cp", ":".join(map(str, libraries)), "-d", str(folder)]
    run = subprocess.run([*command, *sources], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@dataclass(frozen=True, slots=True)
class Failure:
    """How a call failed: the exception's class, its SQLState, and the messages of it and its causes."""

    kind: str
    state: str | None
    messages: tuple[str | None, ...]

    @property
    def text(self) -> str:
        return "\n".join(message or "" for message in self.messages)


class Facts(Mapping[str, Any]):
    """What a probe found out, by the names that the probe gives: values, and failures where calls failed."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found

    def __getitem__(self, fact: str) -> Any:
        """The value of a fact; a failure is the test's failure."""
        value = self._found[fact]
        assert not isinstance(value, Failure), f"{fact}: {value.kind}: {value.text}"
        return value

    def failure(self, fact: str) -> Failure:
        """How a fact failed; a value is the test's failure."""
        value = self._found[fact]
        assert isinstance(value, Failure), f"{fact} did not fail: {value!r}"
        return value

    def all(self) -> Mapping[str, Any]:
        """Values and failures."""
        return self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class Jvm:
    """Runs probes with one version of the driver, and libraries beside it; ended by closing its stdin."""

    def __init__(self, version: str, classes: Path, libraries: Sequence[Path] = ()) -> None:
        self.version = version
        command = [str(drivers.jdk() / "java"), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
        command += ["--add-opens=java.base/java.nio=ALL-UNNAMED"]
        command += ["-cp", ":".join(map(str, (classes, drivers.jar(version), *libraries))), "Probes"]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        self._complaints: list[str] = []
        assert self._child.stderr is not None
        self._drain = threading.Thread(
            target=self._complaints.extend, args=(self._child.stderr,), daemon=True
        )
        self._drain.start()

    def run(self, probe: str, *arguments: str) -> Facts:
        """Run the probe of that class; its own failure is the test's failure."""
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join((probe, *arguments)) + "\n")
        stdin.flush()
        found: dict[str, Any] = {}
        for line in stdout:
            if line == "\n":
                break
            told = json.loads(line)
            error = told.get("error")
            found[told["fact"]] = (
                told["value"]
                if error is None
                else Failure(error["class"], error.get("state"), tuple(error["messages"]))
            )
        else:
            raise RuntimeError(f"{probe} ended the JVM: {''.join(self._complaints)}")
        facts = Facts(found)
        if "probe" in found:
            failure = facts.failure("probe")
            raise AssertionError(f"{probe}: {failure.kind}: {failure.text}")
        return facts

    def close(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._child.stdin.close()
        try:
            self._child.wait(timeout=120)
        finally:
            self._child.kill()
            self._child.wait()
            self._drain.join()
            self._child.stdout.close()
            self._child.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
