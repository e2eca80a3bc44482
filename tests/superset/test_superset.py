"""Superset itself over the package: browsing, SQL, data sets and charts, by its Python side."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme
from adbc_driver_flightsql import DatabaseOptions, dbapi
from adbc_driver_manager import DatabaseOptions as CommonOptions

from lance_gateway.gateway.auth.users import User, hash_password, write_user
from tests.superset.environment import SUPERSET
from tests.support.processes.servers import GatewayProcess

pytestmark = [pytest.mark.slow, pytest.mark.soak]
PASSWORD = "correct horse: ü"
POLICY = '[roles.analyst]\ngrants = [{ tables = ["*"], write = true }]\n'
CONFIGURATION = """
NOTHING = {{"CACHE_TYPE": "NullCache"}}
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = NOTHING
SECRET_KEY = "of nothing that lasts, and long enough"
SQLALCHEMY_DATABASE_URI = "sqlite:///{own}"
"""
STATEMENTS = (
    """CREATE TABLE visits (id BIGINT PRIMARY KEY, page VARCHAR, seen TIMESTAMP, day DATE, seconds DOUBLE,
    number BIGINT UNSIGNED, tags VARCHAR[], price DECIMAL(9, 2), whole BOOLEAN, told TIMESTAMPTZ)""",
    """INSERT INTO visits (id, page, seen, day, seconds, number, tags, price) VALUES
    (1, '/', '2026-01-07 08:17:36.5', '2026-01-07', 2.5, 18446744073709551615, ['a'], 1.25)""",
    """INSERT INTO visits (id, page, seen, day, seconds) VALUES
    (2, '/docs', '2026-01-07 10:00:00', '2026-01-07', 4), (3, NULL, '2026-01-02 00:00:00', '2026-01-02', 3),
    (4, 'it''s', '2026-01-31 23:59:59.999999', '2026-01-31', 1), (5, '/', '2026-01-08', '2026-01-08', 6),
    (6, '/', '2026-02-01', '2026-02-01', 100)""",
    "CREATE VIEW slow AS SELECT * FROM visits WHERE seconds > 3",
)


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its authority, users and policy."""
    path = tmp_path_factory.mktemp("security")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(path / "server.pem")
    authority.cert_pem.write_to_path(path / "ca.pem")
    (path / "policy.toml").write_text(POLICY)
    write_user(path / "users.toml", User("alice", hash_password(PASSWORD), (), frozenset({"analyst"})))
    return path


@pytest.fixture(scope="module")
def url(security: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a gateway with TLS, passwords and the tables, for sessions that change nothing."""
    server = security / "server.pem"
    options = [f"tls.certificate_file={server}", f"tls.key_file={server}"]
    options += [f"auth.{name}_file={security / name}.toml" for name in ("users", "policy")]
    login = {
        DatabaseOptions.TLS_ROOT_CERTS.value: (security / "ca.pem").read_text(),
        CommonOptions.USERNAME.value: "alice",
        CommonOptions.PASSWORD.value: PASSWORD,
    }
    root = tmp_path_factory.mktemp("root")
    with GatewayProcess(root, *(f"--set={option}" for option in options)) as process:
        with dbapi.connect(process.uri, db_kwargs=login, autocommit=True) as connection:
            for sql in STATEMENTS:
                with connection.cursor() as cursor:
                    cursor.execute(sql)
        address = process.uri.partition("://")[2]
        yield (
            f"lance_gateway+tls://alice:{quote(PASSWORD, safe='')}@{address}"
            f"?tls_ca={security / 'ca.pem'}&read_only=true"
        )


@pytest.fixture(scope="module")
def answers(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Superset says, under the names of `superset_main`."""
    environment = SUPERSET.find_or_skip()
    home = tmp_path_factory.mktemp("superset")
    package = SUPERSET.install(environment, tmp_path_factory.mktemp("package"))
    (home / "superset_config.py").write_text(CONFIGURATION.format(own=home / "own.db"))
    done = subprocess.run(
        [str(environment / "bin" / "python"), str(Path(__file__).with_name("superset_main.py")), url],
        env={**os.environ, "PYTHONPATH": f"{package}:{home}", "SUPERSET_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    _, found, printed = done.stdout.partition("\nANSWERS ")
    assert found, done.stderr
    told: dict[str, Any] = json.loads(printed)
    return told


def test_a_database_has_the_settings_of_the_package(answers: dict[str, Any]) -> None:
    assert answers["spec"] == "Lance Gateway"
    assert answers["schemas"] == ["information_schema", "main", "system"]
    assert (answers["tables"], answers["views"], answers["key"]) == (["visits"], ["slow"], ["id"])
    assert {"date_trunc", "sum"} <= set(answers["functions"])


def test_columns_are_numbers_texts_and_times(answers: dict[str, Any]) -> None:
    assert answers["columns"] == {
        "id": ["BIGINT", "NUMERIC"],
        "page": ["TEXT", "STRING"],
        "seen": ["TIMESTAMP", "TEMPORAL"],
        "day": ["DATE", "TEMPORAL"],
        "seconds": ["FLOAT", "NUMERIC"],
        "number": ["DECIMAL(20, 0)", "NUMERIC"],
        "tags": ["list<item: string>", None],
        "price": ["DECIMAL(9, 2)", "NUMERIC"],
        "whole": ["BOOLEAN", "BOOLEAN"],
        "told": ["TIMESTAMP", "TEMPORAL"],
    }


def test_sql_lab_shows_rows(answers: dict[str, Any]) -> None:
    (row,) = zip(*answers["preview"].values(), strict=True)
    assert dict(zip(answers["preview"], row, strict=True)) == {
        "id": 1, "page": "/", "seen": "2026-01-07 08:17:36.500000", "day": "2026-01-07", "seconds": 2.5,
        "number": "18446744073709551615", "tags": '["a"]', "price": "1.25", "whole": None, "told": None,
    }  # fmt: skip
    assert answers["nothing"] == {"id": []}


def test_charts_group_filter_and_limit_series(answers: dict[str, Any]) -> None:
    assert answers["charts"] == {
        "series": [
            ["2026-01-02 00:00:00", None, 3.0],
            ["2026-01-07 00:00:00", "/", 2.5],
            ["2026-01-07 00:00:00", "/docs", 4.0],
            ["2026-01-08 00:00:00", "/", 6.0],
            ["2026-01-31 00:00:00", "it's", 1.0],
        ],
        "limited series": [["2026-01-05 00:00:00", "/", 8.5]],
        "filtered": [["/", 8.5], [None, 3.0]],
        "quoted": [["it's", 1.0]],
        "days": [["2026-01-07", 6.5], ["2026-01-08", 6.0], ["2026-01-31", 1.0]],
        "having": [["/", 8.5]],
    }


def test_time_is_cut_by_every_grain(answers: dict[str, Any]) -> None:
    """2026-01-07 08:17:36.5 is a Wednesday."""
    assert answers["grains"] == {
        "PT1S": "2026-01-07 08:17:36",
        "PT5S": "2026-01-07 08:17:35",
        "PT30S": "2026-01-07 08:17:30",
        "PT1M": "2026-01-07 08:17:00",
        "PT5M": "2026-01-07 08:15:00",
        "PT10M": "2026-01-07 08:10:00",
        "PT15M": "2026-01-07 08:15:00",
        "PT30M": "2026-01-07 08:00:00",
        "PT1H": "2026-01-07 08:00:00",
        "PT6H": "2026-01-07 06:00:00",
        "P1D": "2026-01-07 00:00:00",
        "P1W": "2026-01-05 00:00:00",
        "P1M": "2026-01-01 00:00:00",
        "P3M": "2026-01-01 00:00:00",
        "P1Y": "2026-01-01 00:00:00",
        "1969-12-28T00:00:00Z/P1W": "2026-01-04 00:00:00",
        "1969-12-29T00:00:00Z/P1W": "2026-01-05 00:00:00",
        "P1W/1970-01-03T00:00:00Z": "2026-01-10 00:00:00",
        "P1W/1970-01-04T00:00:00Z": "2026-01-11 00:00:00",
    }
    assert answers["epoch"] == "1970-01-02 00:00:00"


def test_refusals_are_the_gateways(answers: dict[str, Any]) -> None:
    assert "No field named nothing" in answers["error"]
    assert "PERMISSION_DENIED" not in answers["error"]
    assert "read_only" in answers["write"]
