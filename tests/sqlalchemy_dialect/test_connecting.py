"""URLs: who connects, how, and with which options."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import AdbcStatusCode, dbapi

from lance_gateway.gateway.config.sections.serving import TlsSection
from sqlalchemy_lance_gateway import LanceGatewayDialect
from sqlalchemy_lance_gateway.connecting import build_arguments
from tests.gateway.auth.conftest import (  # noqa: F401 - fixtures
    PASSWORD,
    Guarded,
    authority,
    guarded,
    server_tls,
    users_file,
)


@contextmanager
def connected(url: sa.URL | str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


@pytest.mark.parametrize(
    ("url", "address", "options"),
    [
        ("lance_gateway://", "grpc://127.0.0.1:31337", {}),
        ("lance_gateway://host:7/lance", "grpc://host:7", {}),
        ("lance_gateway://[::1]:7", "grpc://[::1]:7", {}),
        ("lance_gateway://host?tls=true", "grpc+tls://host:31337", {}),
        ("lance_gateway://host?tls=no", "grpc://host:31337", {}),
        ("lance_gateway://a:b%40c@host", "grpc://host:31337", {"username": "a", "password": "b@c"}),
        (
            "lance_gateway://host?token=x.y",
            "grpc://host:31337",
            {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer x.y"},
        ),
        (
            "lance_gateway://host?consistency=flushed",
            "grpc://host:31337",
            {"adbc.flight.sql.rpc.call_header.x-lance-gateway-consistency": "flushed"},
        ),
        (
            f"lance_gateway://host?{DatabaseOptions.WITH_MAX_MSG_SIZE.value}=5",
            "grpc://host:31337",
            {DatabaseOptions.WITH_MAX_MSG_SIZE.value: "5"},
        ),
    ],
)
def test_a_url_says_where_and_how(url: str, address: str, options: dict[str, str]) -> None:
    assert build_arguments(sa.make_url(url), tls=False) == (
        [address],
        {"db_kwargs": {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true", **options}, "autocommit": True},
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("lance_gateway://host/other", "has the database 'lance' alone, not 'other'"),
        (
            "lance_gateway://host?colour=green",
            "unknown option 'colour'; there are consistency, durable_writes,",
        ),
        ("lance_gateway://host?tls=maybe", "tls='maybe' in the URL is neither true nor false"),
        ("lance_gateway://host?token=a&token=b", "'token' more than once"),
        ("lance_gateway://a:b@host?token=c", "both a user and a token are given"),
        (
            "lance_gateway://host?tls=true&tls_ca=/nowhere.pem",
            "tls_ca='/nowhere.pem' can't be read: No such file",
        ),
        ("lance_gateway+tls://host?tls=false", "contradict each other"),
    ],
)
def test_a_url_that_means_nothing_is_refused(url: str, said: str) -> None:
    with pytest.raises(sa.exc.ArgumentError, match=said):
        sa.create_engine(url).connect()


def test_certificates_without_tls_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    with pytest.raises(sa.exc.ArgumentError, match="certificates need TLS"):
        sa.create_engine(f"lance_gateway://host?tls_ca={tmp_path}/ca.pem").connect()


def test_the_version_and_the_schema_are_known(engine: sa.Engine) -> None:
    engine.connect().close()
    assert isinstance(engine.dialect, LanceGatewayDialect)
    assert len(engine.dialect.server_version_info or ()) >= 3
    assert engine.dialect.default_schema_name == "main"


def test_options_of_the_session_hold_for_every_statement(url: str) -> None:
    with connected(f"{url}?query_timeout_ms=1") as connection:
        with pytest.raises(sa.exc.DBAPIError) as caught:
            connection.scalar(
                sa.text("SELECT count(*) FROM generate_series(1, 1000000000000) AS t(a) WHERE a % 7 = 3")
            )
        assert isinstance(caught.value.orig, dbapi.Error)
        assert caught.value.orig.status_code == AdbcStatusCode.TIMEOUT


def test_users_log_in(guarded: Guarded, users_file: Path) -> None:  # noqa: F811
    with guarded(users_file=users_file) as server:
        url = sa.URL.create("lance_gateway", "alice", PASSWORD, "127.0.0.1", server.port)
        with connected(url) as connection:
            assert connection.scalar(sa.text("SELECT 1")) == 1
        with pytest.raises(sa.exc.DBAPIError) as caught, connected(url.set(password="wrong")):
            pass
        assert isinstance(caught.value.orig, dbapi.Error)
        assert caught.value.orig.status_code == AdbcStatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("scheme", ["lance_gateway", "lance_gateway+tls"])
def test_tls_with_an_authority_of_ones_own(
    guarded: Guarded,  # noqa: F811
    server_tls: TlsSection,  # noqa: F811
    users_file: Path,  # noqa: F811
    scheme: str,
) -> None:
    assert server_tls.certificate_file is not None
    query: dict[str, Any] = {"tls_ca": str(server_tls.certificate_file.with_name("ca.pem"))}
    if scheme == "lance_gateway":
        query["tls"] = "true"
    with guarded(server_tls, users_file=users_file) as server:
        url = sa.URL.create(scheme, "alice", PASSWORD, "localhost", server.port, query=query)
        with connected(url) as connection:
            assert connection.scalar(sa.text("SELECT 1")) == 1


def test_a_connection_that_lost_its_server_is_replaced(guarded: Guarded, users_file: Path) -> None:  # noqa: F811
    with guarded(users_file=users_file) as server:
        url = sa.URL.create("lance_gateway", "alice", PASSWORD, "127.0.0.1", server.port)
        engine = sa.create_engine(url)
        connection = engine.connect()
        connection.scalar(sa.text("SELECT 1"))
    with pytest.raises(sa.exc.DBAPIError) as caught:
        connection.scalar(sa.text("SELECT 2"))
    assert caught.value.connection_invalidated
    connection.close()
    engine.dispose()


def test_an_installed_package_registers_the_dialect() -> None:
    declared = Path(__file__).parents[2].joinpath("pyproject.toml").read_text()
    assert '[project.entry-points."sqlalchemy.dialects"]' in declared
    for point in entry_points(group="sqlalchemy.dialects"):
        if point.value.startswith("sqlalchemy_lance_gateway"):
            assert issubclass(point.load(), LanceGatewayDialect)
