"""What an archive for executors holds, and where it may be shipped."""

import subprocess
import tarfile
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lance_gateway.memwal.errors import InvalidInputError, UnavailableError
from lance_gateway.pipeline.cli import app
from lance_gateway.pipeline.spark import archive as archives
from lance_gateway.pipeline.spark.archive import find_distributions, pack
from lance_gateway.pipeline.spark.session import open_session


def test_what_executors_need_and_nothing_that_spark_brings_or_tests_want():
    found = find_distributions()
    assert {
        "lance-gateway",
        "pylance",
        "pyarrow",
        "datafusion",
        "pandas",
        "numpy",
        "cryptography",
    } <= found.keys()
    assert not found.keys() & {"pyspark", "py4j", "pytest", "duckdb", "mypy", "matplotlib"}


@pytest.mark.slow
@pytest.mark.soak
def test_its_python_runs_without_the_one_that_packed_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    small = {name: metadata.distribution(name) for name in ("lance-gateway", "idna")}
    monkeypatch.setattr(archives, "find_distributions", lambda: small)
    report = pack(tmp_path / "a.tar.gz")
    assert (report.packages, report.num_bytes) == (tuple(small), report.path.stat().st_size)
    with tarfile.open(report.path) as archive:
        archive.extractall(tmp_path / "environment", filter="tar")
    report.path.unlink()
    script = (
        "import idna, ssl, sys; from lance_gateway.memwal import errors as ours\n"
        "print(ours.__file__, idna.__file__, sys.prefix)"
    )
    done = subprocess.run(
        ["./environment/bin/python", "-c", script],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    place = tmp_path / "environment"
    ours, others = place / "packages/lance_gateway/memwal/errors.py", place / "packages/idna/__init__.py"
    assert (done.stderr, done.stdout.split()) == ("", [str(ours), str(others), str(place)])
    assert [one.name for one in tmp_path.iterdir()] == ["environment"], "no part of a file is left"


@pytest.mark.parametrize("name", ["a.tar", "a.zip", "a"])
def test_a_name_that_spark_would_not_unpack_rightly(tmp_path: Path, name: str):
    result = CliRunner().invoke(app, ["archive", str(tmp_path / name)])
    assert result.exit_code == 1
    assert result.stderr == f"error: '{tmp_path / name}' is not a name for an archive: end it with .tar.gz\n"


def test_a_folder_that_is_not_there(tmp_path: Path):
    with pytest.raises(
        UnavailableError, match=r"the archive '.*/no/a.tar.gz' can't be written: .*No such file"
    ):
        pack(tmp_path / "no" / "a.tar.gz")


@pytest.mark.parametrize("master", [None, "local[*]"])
def test_an_archive_without_a_cluster(master: str | None):
    with (
        pytest.raises(
            InvalidInputError, match=r"--archive 'a.tar.gz' is for the executors of a cluster: give"
        ),
        open_session(master, archive="a.tar.gz"),
    ):
        pass


def test_an_archive_that_is_not_there():
    with (
        pytest.raises(InvalidInputError, match=r"there is no archive 'a.tar.gz': make it with lance-gateway"),
        open_session("spark://host:7077", archive="a.tar.gz"),
    ):
        pass
