"""The whole of it in a process of its own: files, command line, policy, logs."""

import logging
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pytest
from click.testing import Result
from pyarrow import flight
from typer.testing import CliRunner

from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.auth.files import WatchedFile
from lance_gateway.gateway.auth.gateway_tokens import create_token
from lance_gateway.gateway.auth.policy import parse_policy
from lance_gateway.gateway.cli import app
from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.config.sections.serving import TlsSection
from tests.gateway.auth.conftest import PASSWORD, Guarded, uri_of
from tests.gateway.auth.tokens.keys import AUDIENCE, ISSUER, Signer
from tests.gateway.conftest import serving
from tests.support.processes.servers import GatewayProcess

POLICY = """
[roles.analyst]
grants = [{ tables = ["orders"], rows = "customer = 'customer 3'", masks = { amount = "0.0" } }]

[roles.everything]
grants = [{ tables = ["*"] }]
"""


def command(*arguments: str, stdin: str | None = None, **variables: str) -> Result:
    """Runs `lance-gateway` in this process."""
    return CliRunner().invoke(app, list(arguments), input=stdin, env=variables)


@pytest.mark.slow
def test_from_the_command_line_to_a_query(
    lake: Path, serve: Callable[..., GatewayProcess], server_tls: TlsSection, tmp_path: Path
) -> None:
    users, tokens, policy = tmp_path / "users.toml", tmp_path / "tokens.toml", tmp_path / "policy.toml"
    added = command("user", "add", "alice", "--file", str(users), "--role", "analyst", stdin=PASSWORD + "\n")
    assert added.stdout == f"user 'alice' is in {users}\n"
    created = command(
        "token", "create", "ci", "--file", str(tokens), "--role", "everything", "--expires-in", "1d"
    )
    assert re.fullmatch(r"lgw_[\w-]{43}\n", created.stdout)
    policy.write_text(POLICY)
    checked = command("policy", "check", str(policy), "--root", str(lake))
    assert checked.stdout == "the policy is good\n"
    assert server_tls.certificate_file is not None
    ca = server_tls.certificate_file.with_name("ca.pem")
    gateway = serve(
        lake,
        *("--host", "0.0.0.0", "--http-port", "off"),
        *("--set", f"tls.certificate_file={server_tls.certificate_file}"),
        *("--set", f"tls.key_file={server_tls.key_file}"),
        *("--set", f"auth.users_file={users}"),
        *("--set", f"auth.tokens_file={tokens}"),
        *("--set", f"auth.policy_file={policy}"),
    )
    uri = gateway.uri.replace("0.0.0.0", "localhost")
    count = "SELECT count(*), sum(amount) FROM orders"

    def run(*arguments: str, **variables: str) -> Result:
        return command("sql", "--uri", uri, "--tls-ca", str(ca), "--format", "csv", *arguments, **variables)

    seen = run("--user", "alice", count, LANCE_GATEWAY_PASSWORD=PASSWORD)
    assert seen.stdout.splitlines()[1] == "143,0", seen.stderr
    everything = run(count, LANCE_GATEWAY_TOKEN=created.stdout.strip())
    assert everything.stdout.splitlines()[1].startswith("1000,"), everything.stderr
    hidden = run("--user", "alice", "SELECT * FROM typed", LANCE_GATEWAY_PASSWORD=PASSWORD)
    assert hidden.exit_code == 1
    assert "does not exist" in hidden.stderr
    nobody = run(count)
    assert (nobody.exit_code, "authentication is required" in nobody.stderr) == (1, True)
    wrong = run("--user", "alice", count, LANCE_GATEWAY_PASSWORD="wrong password")
    assert wrong.stderr == "error: the user name or the password is wrong\n"


@pytest.mark.slow
def test_a_server_that_others_could_reach_does_not_start_open(lake: Path) -> None:
    program = str(Path(sys.executable).with_name("lance-gateway"))
    arguments = [program, "serve", "--root", str(lake), "--host", "0.0.0.0", "--port", "0"]
    refused = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert "no authentication is set" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "complaint"),
    [
        (["user", "add", "a", "--file", "FILE"], "short\n", "8 characters at least"),
        (["user", "add", "a:b", "--file", "FILE"], PASSWORD, "at a colon"),
        (["user", "remove", "a", "--file", "FILE"], "", "cannot be read: No such file"),
        (["token", "create", "a", "--file", "FILE", "--expires-in", "soon"], "", "is not a duration"),
        (["policy", "check", "FILE"], "", "cannot be read: No such file"),
        (["sql", "--user", "a", "SELECT 1"], "", "a user and a password belong together"),
        (["sql", "--tls-ca", "FILE", "SELECT 1"], "", "is not encrypted"),
    ],
)
def test_commands_say_what_is_wrong_in_one_line(
    tmp_path: Path, arguments: list[str], stdin: str, complaint: str
) -> None:
    file = str(tmp_path / "file.toml")
    failed = command(*(file if argument == "FILE" else argument for argument in arguments), stdin=stdin)
    assert failed.exit_code == 1
    (line,) = failed.stderr.splitlines()
    assert line.startswith("error: ")
    assert complaint in line


def test_a_policy_that_does_not_fit_the_tables_is_described(lake: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[roles.a]\ngrants = [{ tables = ["orders"], rows = "colour = 1" }]\n'
        '[roles.b]\ngrants = [{ tables = ["*"], hidden = ["customer"] }]\n'
        '[roles.c]\ngrants = [{ tables = ["orders"], hidden = ["customer"] }]\n'
    )
    failed = command("policy", "check", str(policy), "--root", str(lake))
    assert failed.exit_code == 1
    lines = failed.stderr.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("error: role 'a': table 'orders': row filter 'colour = 1'")
    assert lines[1].startswith("error: role 'b': table 'typed': the policy hides column 'customer'")
    assert "view 'big_orders'" in lines[2]


def test_a_changed_policy_counts_without_a_restart(lake: Path, tmp_path: Path) -> None:
    text = POLICY + '[users]\nanonymous = ["analyst"]\n'
    file = tmp_path / "policy.toml"
    file.write_text(text)
    policy = WatchedFile(file, parse_policy, interval=0.0)
    security = Security(None, lambda identity: policy().access(identity))
    with serving(lake, security=security) as server, GatewayClient(uri_of(server)) as client:
        count = "SELECT count(*) AS n FROM orders"
        assert client.query(count).read_all().to_pylist() == [{"n": 143}]
        file.write_text(text.replace("customer 3", "customer 6"))
        assert client.query(count).read_all().to_pylist() == [{"n": 142}]
        file.write_text(text.replace('["orders"]', '["other"]'))
        with pytest.raises(KeyError, match="does not exist"):
            client.query(count)


def test_no_log_line_holds_a_secret(
    guarded: Guarded,
    users_file: Path,
    jwks_file: Path,
    signer: Signer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api_token = create_token(tmp_path / "tokens.toml", "ci", "ci", frozenset())
    jwt = {"jwks": str(jwks_file), "issuer": ISSUER, "audience": AUDIENCE}
    secrets = [PASSWORD, "Tr0ub4dor&3", api_token, api_token[1:]]
    with (
        caplog.at_level(logging.DEBUG),
        guarded(users_file=users_file, tokens_file=tmp_path / "tokens.toml", jwt=jwt) as server,
        flight.FlightClient(uri_of(server)) as client,
    ):

        def present(header: bytes) -> Any:
            options = flight.FlightCallOptions(headers=[(b"authorization", header)])
            return list(client.list_actions(options))

        _, issued = client.authenticate_basic_token("alice", PASSWORD)
        secrets.append(issued.decode().removeprefix("Bearer "))
        present(issued)
        present(f"Bearer {api_token}".encode())
        for forged in (signer.sign(aud="x"), signer.sign(exp=1), signer.sign() + "x"):
            secrets += [forged, *(part for part in forged.split(".")[1:])]
            with pytest.raises(flight.FlightUnauthenticatedError):
                present(f"Bearer {forged}".encode())
        for bad in (f"Bearer {api_token[1:]}".encode(), issued + b"x", b"Basic !" + issued):
            with pytest.raises(flight.FlightUnauthenticatedError):
                present(bad)
        for name in ("alice", "nobody"):
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.authenticate_basic_token(name, "Tr0ub4dor&3")
        with pytest.raises(adbc_driver_manager.Error):
            flightsql.connect(uri_of(server), db_kwargs={"username": "alice", "password": "Tr0ub4dor&3"})
    assert "login of 'nobody' refused: there is no such user" in caplog.text
    assert "login of 'alice' refused: the password is wrong" in caplog.text
    assert "JWT refused: InvalidAudienceError" in caplog.text
    for secret in secrets:
        assert secret not in caplog.text
