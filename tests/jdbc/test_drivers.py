"""What the JDBC tests need, and how it is named where it is missing."""

import stat
from pathlib import Path

import pytest

from tests.jdbc import drivers


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without JDK, Maven and drivers; its only PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(drivers, "FOLDER", tmp_path / "drivers")
    (tmp_path / "drivers").mkdir()
    return tmp_path


def install(path: Path, says: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.usefixtures("nowhere")
def test_a_missing_jdk_is_named_with_its_package() -> None:
    with pytest.raises(drivers.MissingError, match=r"no javac in PATH.*apt install openjdk-17-jdk-headless"):
        drivers.jdk.__wrapped__()


def test_java_home_comes_first(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(nowhere / "javac", "javac 21.0.1")
    assert drivers.jdk.__wrapped__() == nowhere
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "home"))
    with pytest.raises(drivers.MissingError, match="no javac in JAVA_HOME"):
        drivers.jdk.__wrapped__()


@pytest.mark.parametrize("says", ["javac 11.0.2", "no compiler"])
def test_a_jdk_that_is_too_old_says_which_it_is(nowhere: Path, says: str) -> None:
    install(nowhere / "javac", says)
    with pytest.raises(drivers.MissingError, match=f"says '{says}': install a JDK of version 17 or newer"):
        drivers.jdk.__wrapped__()


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("version", drivers.DRIVERS)
def test_without_maven_a_driver_is_named_with_what_fetches_it(version: str) -> None:
    with pytest.raises(
        drivers.MissingError,
        match=rf"Maven fetches the driver .*flight-sql-jdbc-driver:{version}.*apt install maven",
    ):
        drivers.jar(version)


def test_a_maven_that_fails_says_why(nowhere: Path) -> None:
    install(nowhere / "mvn", "[ERROR] nobody answers")
    with (nowhere / "mvn").open("a") as script:
        script.write("exit 1\n")
    with pytest.raises(
        drivers.MissingError, match=r"Maven could not fetch .*18\.3\.0: \[ERROR\] nobody answers"
    ):
        drivers.jar("18.3.0")


def test_another_file_than_the_pinned_one_is_not_used(nowhere: Path) -> None:
    (nowhere / "drivers" / "flight-sql-jdbc-driver-18.3.0.jar").write_bytes(b"something else")
    with pytest.raises(drivers.MissingError, match=r"has the SHA-256 .*delete it and try again"):
        drivers.jar("18.3.0")
