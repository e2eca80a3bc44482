"""A gateway with TLS and passwords, and dbt with a project beside it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from adbc_driver_flightsql import DatabaseOptions, dbapi
from adbc_driver_manager import DatabaseOptions as CommonOptions

from lance_gateway.gateway.auth.users import User, hash_password, write_user
from tests.dbt.environment import DBT
from tests.support.processes.servers import GatewayProcess, fetch

PASSWORD = "correct horse; battery: staple ü"
POLICY = """
[roles.analyst]
grants = [{ tables = ["*", "raw.*", "shop.*", "shop_staging.*", "notes.*"], write = true }]
"""


@dataclass(frozen=True)
class Dbt:
    """The command `dbt` in an environment of its own.

    Attributes:
        environment: the virtual environment.
        adapter: the directory of the adapter's package.
        project: the directory of the project, which is a copy.
        variables: of the process.
    """

    environment: Path
    adapter: Path
    project: Path
    variables: Mapping[str, str]

    def try_run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of dbt."""
        dbt = str(self.environment / "bin" / "dbt")
        return self._run(dbt, "--no-use-colors", "--no-version-check", *arguments, **variables)

    def run(self, *arguments: str) -> None:
        """Run a command of dbt that succeeds."""
        done = self.try_run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def run_python(self, code: str) -> str:
        """Run Python in dbt's environment; return what it prints."""
        done = self._run(str(self.environment / "bin" / "python"), "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read_target(self, name: str) -> Any:
        """Return one of the JSON files that dbt has written."""
        return json.loads((self.project / "target" / name).read_text())

    def _run(self, *command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            cwd=self.project,
            env={**os.environ, "PYTHONPATH": str(self.adapter), **self.variables, **variables},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """dbt's environment and the adapter; skips the test, loudly, where dbt can't be had."""
    found = DBT.find_or_skip()
    return found, DBT.install(found, tmp_path_factory.mktemp("adapter"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its authority, users and policy."""
    path = tmp_path_factory.mktemp("security")
    authority = trustme.CA()
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        path / "server.pem"
    )
    authority.cert_pem.write_to_path(path / "ca.pem")
    (path / "policy.toml").write_text(POLICY)
    write_user(path / "users.toml", User("alice", hash_password(PASSWORD), (), frozenset({"analyst"})))
    return path


@pytest.fixture(scope="module")
def gateway(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    server = folder / "server.pem"
    options = [f"tls.certificate_file={server}", f"tls.key_file={server}"]
    options += [f"auth.{name}_file={folder / name}.toml" for name in ("users", "policy")]
    root = tmp_path_factory.mktemp("root")
    with GatewayProcess(root, *(f"--set={option}" for option in options)) as process:
        yield process


@pytest.fixture(scope="module")
def dbt(
    installed: tuple[Path, Path],
    gateway: GatewayProcess,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Dbt:
    project = tmp_path_factory.mktemp("dbt") / "project"
    shutil.copytree(Path(__file__).with_name("project"), project)
    variables = {
        "GATEWAY_URI": gateway.uri,
        "GATEWAY_USER": "alice",
        "GATEWAY_PASSWORD": PASSWORD,
        "GATEWAY_CA": str(folder / "ca.pem"),
    }
    return Dbt(*installed, project, variables)


class Lake:
    """The gateway, over ADBC."""

    def __init__(self, connection: dbapi.Connection) -> None:
        self._connection = connection

    def write(self, *statements: str) -> None:
        for sql in statements:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        columns = fetch(self._connection, sql).to_pydict()
        return list(zip(*columns.values(), strict=True))


@pytest.fixture(scope="module")
def lake(gateway: GatewayProcess, folder: Path) -> Iterator[Lake]:
    options = {
        DatabaseOptions.TLS_ROOT_CERTS.value: (folder / "ca.pem").read_text(),
        CommonOptions.USERNAME.value: "alice",
        CommonOptions.PASSWORD.value: PASSWORD,
    }
    with dbapi.connect(gateway.uri, db_kwargs=options, autocommit=True) as connection:
        yield Lake(connection)
