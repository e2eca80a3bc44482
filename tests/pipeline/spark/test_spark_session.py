"""What Spark needs, and what is said where it is missing."""

import importlib.util
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.pipeline.spark.session import check_java, find_session, open_session, quiet_jvm


def pretend_java(folder: Path, text: str) -> None:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{text}\n")
    java.chmod(0o755)


def refused() -> str:
    with pytest.raises(PreconditionError) as caught:
        check_java()
    assert (
        "install a JDK of version 17 or 21 (Debian and Ubuntu: apt install openjdk-17-jre-headless)"
        in str(caught.value)
    )
    return str(caught.value)


def test_no_java_in_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no java in PATH" in refused()


def test_a_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"JAVA_HOME is {tmp_path}, where there is no bin/java" in refused()


@pytest.mark.parametrize(
    ("java", "message"),
    [
        ("echo java.base@11.0.2", "bin/java is version 11: "),
        (
            "echo 'Unrecognized option: --list-modules' >&2; exit 1",
            "bin/java is too old, or does not start: ",
        ),
        ("echo java.base@17.0.1", "Spark needs the module jdk.incubator.vector, which "),
    ],
)
def test_a_java_that_is_none_for_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: str, message: str
):
    pretend_java(tmp_path, java)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert message in refused()


def test_a_java_that_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pretend_java(tmp_path, "echo java.base@21; echo jdk.incubator.vector@21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


@pytest.mark.parametrize("missing", ["pyspark", "pandas"])
def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch, missing: str):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    message = rf"{missing} is not installed: pip install 'lance-gateway\[spark\]'"
    with pytest.raises(PreconditionError, match=message):
        find_session()


def test_a_session_that_is_there_is_used_and_stays(spark: SparkSession):
    with open_session("local[1]") as found:
        assert found is spark
    assert spark.range(3).count() == 3


def test_what_a_jvm_says_is_kept_away_and_its_last_words_are_known(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
):
    path = tmp_path / "spark.log"
    with quiet_jvm(str(path)) as log:
        os.write(2, b"first\nlast words\n")
        assert log.last_words() == " (last words)"
    os.write(2, b"seen\n")
    assert capfd.readouterr().err == "seen\n"
    assert path.read_text() == "first\nlast words\n"


def test_a_log_that_cannot_be_written(tmp_path: Path):
    with (
        pytest.raises(InvalidInputError, match=r"Spark's log can't be written to .*: Is a directory"),
        quiet_jvm(str(tmp_path)),
    ):
        pass
