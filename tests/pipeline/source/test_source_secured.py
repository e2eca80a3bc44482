"""Passwords, tokens, certificates and access policies, as a Spark job meets them."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
import trustme

from lance_gateway.gateway.auth.users import User, write_user
from lance_gateway.gateway.config.sections.auth import AuthSection
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.gateway.start.opening import open_security
from lance_gateway.pipeline.source.client import LanceGatewaySourceError
from lance_gateway.pipeline.source.reading import Whole
from tests.gateway.auth.conftest import QUICK, write_tls
from tests.gateway.conftest import ORDER_COUNT, orders, serving
from tests.support.lake.sources import Read, plan_read

PASSWORD = "correct horse"
POLICY = """
[[roles.analyst.grants]]
tables = ["orders"]
rows = "customer = 'customer 1'"

[roles.owner]
admin = true
grants = [{ tables = ["*"] }]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secured")
    lance.write_dataset(orders(), path / "lake" / "orders.lance", max_rows_per_file=250)
    for name, role in (("olga", "owner"), ("anna", "analyst")):
        write_user(path / "users.toml", User(name, QUICK.hash(PASSWORD), (), frozenset({role})))
    (path / "policy.toml").write_text(POLICY)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[GatewayServer]:
    auth = AuthSection(users_file=folder / "users.toml", policy_file=folder / "policy.toml")
    tls = write_tls(trustme.CA(), folder)
    with serving(
        folder / "lake", security=open_security(tls, auth, host="127.0.0.1", hasher=QUICK)
    ) as started:
        yield started


def orders_of(user: str, server: GatewayServer, folder: Path, **options: str) -> Read:
    login = {"user": user, "password": PASSWORD, "tls_ca": str(folder / "ca.pem")}
    return plan_read(
        f"grpc+tls://127.0.0.1:{server.port}", table="orders", endpoints="3", **{**login, **options}
    )


def test_a_user_reads_in_parts_over_tls(server: GatewayServer, folder: Path) -> None:
    planned = orders_of("olga", server, folder)
    assert len(planned.partitions) == 3
    assert len(planned.rows()) == ORDER_COUNT


def test_the_password_may_stay_in_the_environment(
    server: GatewayServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_GATEWAY_PASSWORD", PASSWORD)
    ca = str(folder / "ca.pem")
    planned = plan_read(f"grpc+tls://127.0.0.1:{server.port}", table="orders", user="olga", tls_ca=ca)
    assert len(planned.rows()) == ORDER_COUNT
    assert PASSWORD.encode() not in pickle.dumps(planned.reader) + pickle.dumps(planned.partitions)


def test_a_wrong_password_is_refused_and_not_repeated(server: GatewayServer, folder: Path) -> None:
    with pytest.raises(LanceGatewaySourceError, match=r"gateway grpc\+tls://.*password") as refused:
        orders_of("olga", server, folder, password="wrong-and-secret")
    assert "wrong-and-secret" not in str(refused.value)


def test_a_server_that_nobody_vouches_for_is_not_talked_to(
    server: GatewayServer, folder: Path, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    with pytest.raises(LanceGatewaySourceError, match="gateway grpc"):
        orders_of("olga", server, folder, tls_ca=str(tmp_path / "other.pem"), retries="0")


def test_a_restricted_user_reads_what_they_may_see_as_a_whole(server: GatewayServer, folder: Path) -> None:
    planned = orders_of("anna", server, folder)
    assert [type(one) for one in planned.partitions] == [Whole]
    assert {row["customer"] for row in planned.rows()} == {"customer 1"}


def test_a_restricted_user_does_not_read_files(server: GatewayServer, folder: Path) -> None:
    with pytest.raises(LanceGatewaySourceError, match="an access policy applies: use mode = 'gateway'"):
        orders_of("anna", server, folder, mode="direct", root=str(folder / "lake"))
    planned = orders_of("olga", server, folder, mode="direct", root=str(folder / "lake"))
    assert len(planned.rows()) == ORDER_COUNT
