"""The configuration: layers, errors in one line, `lance-gateway config`, and its reference."""

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from lance_gateway.gateway.config import Flag, load
from lance_gateway.gateway.config.effective_values import render_reference
from lance_gateway.gateway.config.loader import ConfigError
from lance_gateway.gateway.config.schema import choose_http_port
from lance_gateway.memwal.quantities import parse_seconds, parse_size
from tests.support.processes.forks import run_command

ROOT = Flag("--root", "root", "/tables")
PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANCE_GATEWAY_CONFIG", raising=False)


def written(folder: Path, content: str) -> Path:
    path = folder / "gateway.toml"
    path.write_text(content)
    return path


def problems(*flags: Flag, file: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load([ROOT, *flags], file)
    return caught.value.problems


def config(*arguments: str, variables: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return run_command("config", *arguments, environment={"PATH": "/usr/bin", **(variables or {})})


class TestLayers:
    def test_flags_win_over_variables_over_the_file_over_defaults(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = written(tmp_path, "root = '/file'\n[server]\nport = 1\nhost = '::1'\ndrain = '1m'")
        monkeypatch.setenv("LANCE_GATEWAY_SERVER__PORT", "2")
        monkeypatch.setenv("LANCE_GATEWAY_SERVER__HOST", "localhost")
        loaded = load([Flag("--port", "server.port", 3)], file)
        server = loaded.config.server
        assert (server.port, server.host, server.drain, server.partitions) == (3, "localhost", 60.0, 0)
        assert loaded.sources == {
            "root": str(file),
            "server.drain": str(file),
            "server.host": "LANCE_GATEWAY_SERVER__HOST",
            "server.port": "--port",
        }

    def test_a_variable_names_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LANCE_GATEWAY_CONFIG", str(written(tmp_path, "root = '/elsewhere'")))
        assert load().config.root == "/elsewhere"

    def test_storage_options_add_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = written(tmp_path, "root = 's3://b'\n[storage_options]\naws_region = 'eu'\nallow_http = 'true'")
        monkeypatch.setenv("LANCE_GATEWAY_STORAGE_OPTIONS__AWS_REGION", "us")
        flag = Flag("--storage-option", "storage_options", {"aws_endpoint": "http://store"})
        assert load([flag], file).config.storage_options == {
            "aws_region": "us",
            "allow_http": "true",
            "aws_endpoint": "http://store",
        }

    def test_lists_in_variables_are_separated_by_commas(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LANCE_GATEWAY_AUTH__JWT__ALGORITHMS", "RS256, ES384")
        assert load([ROOT]).config.auth.jwt.algorithms == ("RS256", "ES384")

    def test_empty_variables_and_those_of_kubernetes_and_clients_say_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LANCE_GATEWAY_SERVER__PORT", "")
        monkeypatch.setenv("LANCE_GATEWAY_PORT", "tcp://10.0.0.1:31337")
        monkeypatch.setenv("LANCE_GATEWAY_PORT_31337_TCP_ADDR", "10.0.0.1")
        monkeypatch.setenv("LANCE_GATEWAY_SERVICE_HOST", "10.0.0.1")
        assert load([ROOT]).sources == {"root": "--root"}

    @pytest.mark.parametrize(
        ("written_as", "seconds"),
        [("30s", 30), ("250ms", 0.25), ("1.5m", 90), ("2 h", 7200), ("7", 7), (3, 3)],
    )
    def test_durations(self, written_as: object, seconds: float) -> None:
        assert parse_seconds(written_as) == seconds

    def test_sizes(self) -> None:
        assert [parse_size(value) for value in ("64MiB", "1kB", "7", 7)] == [64 << 20, 1000, 7, 7]

    @pytest.mark.parametrize(
        ("chosen", "flight_port", "port"),
        [("auto", 31337, 31338), ("auto", 0, 0), ("auto", 65535, 0), ("off", 31337, None), ("9000", 0, 9000)],
    )
    def test_the_http_port_follows_the_flight_port(
        self, chosen: str, flight_port: int, port: int | None
    ) -> None:
        flag = Flag("--http-port", "observability.http_port", chosen)
        assert choose_http_port(load([ROOT, flag]).config.observability, flight_port) == port


_TAKEN = "it takes a duration such as 30s, 5m or 250ms"


class TestErrors:
    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("[server]\nprot = 1", "the key server.prot does not exist: did you mean server.port?"),
            ("[sever]\nport = 1", "the key sever does not exist: did you mean server?"),
            ("[limits]\nport = 1", "the key limits.port does not exist: did you mean server.port?"),
            ("[server]\nport = 70000", "server.port = 70000: it takes a port up to 65535; 0 is any free one"),
            ("[server]\nport = 'x'", "server.port = 'x': it takes a port up to 65535; 0 is any free one"),
            ("server = 1", "server = 1: it takes a table [server]"),
            (
                "[limits]\nquery_timeout = true",
                f"limits.query_timeout = True: it is not a number; {_TAKEN}",
            ),
            (
                "[limits]\nmax_sessions = true",
                "limits.max_sessions = True: it is not a number; it takes a whole number, at least 1",
            ),
            (
                "[limits]\nqueue_timeout = inf",
                "limits.queue_timeout = inf: it takes a duration such as 30s, 5m or 250ms",
            ),
            (
                "[server]\ndrain = '5 parsecs'",
                f"server.drain = '5 parsecs': it is not a duration; {_TAKEN}",
            ),
            ("[limits]\nmax_sessions = 0", "limits.max_sessions = 0: it takes a whole number, at least 1"),
            (
                "[limits]\nsession_idle = 0",
                "limits.session_idle = 0: it takes a duration such as 30s, 5m or 250ms, not 0",
            ),
            (
                "[limits]\ncache_bytes = 'much'",
                "limits.cache_bytes = 'much': it is not a size; it takes a size such as 64MiB, or bytes",
            ),
            (
                "[observability]\nlog_format = 'xml'",
                "observability.log_format = 'xml': it takes one of text, json",
            ),
            (
                "[observability]\nhttp_port = 'on'",
                "observability.http_port = 'on': it takes a port up to 65535, auto or off",
            ),
            (
                "[observability]\notlp_sample_ratio = 2",
                "observability.otlp_sample_ratio = 2: it takes a number from 0 to 1",
            ),
            (
                "[observability]\notlp_endpoint = 'collector:4318'",
                (
                    "observability.otlp_endpoint = 'collector:4318': "
                    "it is not a URL such as http://collector:4318; it takes a text"
                ),
            ),
            ("[auth]\ninsecure = 'maybe'", "auth.insecure = 'maybe': it takes true or false"),
            (
                "[tls]\nkey_file = 'k'",
                "tls.key_file = 'k': tls.certificate_file is not set; it takes a path",
            ),
        ],
    )
    def test_a_problem_in_the_file_is_one_sentence(self, tmp_path: Path, content: str, said: str) -> None:
        file = written(tmp_path, content)
        assert problems(file=file) == (f"{file}: {said}",)

    def test_all_problems_are_told_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LANCE_GATEWAY_LIMITS__MAX_SESSIONS", "few")
        flag = Flag("--log-level", "observability.log_level", "LOUD")
        found = problems(flag, file=written(tmp_path, "[server]\nport = -1"))
        assert [one.partition(":")[0].rpartition("/")[2] for one in found] == [
            "gateway.toml",
            "LANCE_GATEWAY_LIMITS__MAX_SESSIONS",
            "--log-level",
        ]

    def test_a_variable_that_sets_nothing_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LANCE_GATEWAY_SERVR__PORT", "1")
        assert problems() == (
            "the variable LANCE_GATEWAY_SERVR__PORT sets nothing: did you mean LANCE_GATEWAY_SERVER__PORT?",
        )

    def test_storage_options_that_are_no_object_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LANCE_GATEWAY_STORAGE_OPTIONS", "aws_region=eu")
        (found,) = problems()
        assert found.startswith("LANCE_GATEWAY_STORAGE_OPTIONS is not a JSON object")

    def test_a_secret_is_not_repeated(self, tmp_path: Path) -> None:
        file = written(tmp_path, "[storage_options]\naws_secret_access_key = 5")
        (found,) = problems(file=file)
        assert "storage_options.aws_secret_access_key = ***" in found
        (found,) = problems(file=written(tmp_path, "[writes]\npeer_token = 'hunter2'"))
        assert "writes.peer_token = ***" in found

    def test_a_root_is_needed(self) -> None:
        with pytest.raises(ConfigError, match="root is not set: give --root, LANCE_GATEWAY_ROOT, or root in"):
            load()

    def test_a_file_that_is_not_there_or_no_toml_is_named(self, tmp_path: Path) -> None:
        missing = tmp_path / "none.toml"
        assert problems(file=missing)[0].startswith(f"configuration file '{missing}' does not exist")
        file = written(tmp_path, "root =")
        assert problems(file=file)[0].startswith(f"configuration file '{file}' is not TOML: Invalid value")


class TestCommands:
    @pytest.mark.slow
    def test_check_is_content_with_a_root_and_free_ports(self, lake: Path) -> None:
        run = config("check", "--root", str(lake), "--set", "server.port=0")
        assert (run.returncode, run.stdout) == (0, "the configuration is good\n"), run.stderr

    @pytest.mark.slow
    def test_check_names_every_problem(self, lake: Path, tmp_path: Path) -> None:
        missing = tmp_path / "users.toml"
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            address = f"127.0.0.1:{port}"
            run = config(
                "check",
                "--root",
                str(lake),
                "--set",
                f"server.port={port}",
                # By default the port after that one, which may be anybody's.
                "--set",
                "observability.http_port=0",
                "--set",
                f"auth.users_file={missing}",
            )
        assert run.returncode == 1
        assert run.stderr.splitlines() == [
            f"error: --set: auth.users_file = '{missing}': there is no such file",
            f"error: server.port: cannot listen on {address}: Address already in use; choose another port",
        ]

    @pytest.mark.slow
    def test_check_reads_what_files_say(self, lake: Path, tmp_path: Path) -> None:
        policy = tmp_path / "policy.toml"
        policy.write_text("[roles.analyst]\ngrants = [{ tables = ['orders'], rows = 'colour = 1' }]")
        options = ("--root", str(lake), "--set", "server.port=0")
        run = config("check", *options, "--set", f"auth.policy_file={policy}")
        assert run.returncode == 1
        assert "analyst" in run.stderr
        assert "colour" in run.stderr
        certificate = tmp_path / "tls.crt"
        certificate.write_text("no certificate")
        files = ("--set", f"tls.certificate_file={certificate}", "--set", f"tls.key_file={certificate}")
        run = config("check", *options, *files)
        assert run.returncode == 1
        assert str(certificate) in run.stderr
        assert "Traceback" not in run.stderr

    @pytest.mark.slow
    def test_check_refuses_a_missing_root_and_an_open_door(self, tmp_path: Path) -> None:
        forwarding = ("--set", "writes.ownership=forward")
        run = config("check", "--root", str(tmp_path / "none"), "--set", "server.host=0.0.0.0", *forwarding)
        assert run.returncode == 1
        assert "writes.peer_token is not set" in run.stderr
        assert "does not exist" in run.stderr
        assert "--insecure" in run.stderr

    @pytest.mark.slow
    def test_show_tells_values_sources_and_no_secrets(self) -> None:
        run = config(
            "show",
            "--storage-option",
            "aws_region=eu",
            "--set",
            "observability.otlp_endpoint=http://me:hunter2@collector:4318",
            variables={
                "LANCE_GATEWAY_ROOT": "s3://lake",
                "LANCE_GATEWAY_STORAGE_OPTIONS__AWS_SECRET_ACCESS_KEY": "hunter2",
                "LANCE_GATEWAY_WRITES__PEER_TOKEN": "hunter2-hunter2-hunter2",
            },
        )
        assert run.returncode == 0, run.stderr
        lines = run.stdout.splitlines()
        assert 'root = "s3://lake"  # LANCE_GATEWAY_ROOT' in lines
        assert 'aws_region = "eu"  # --storage-option' in lines
        assert "port = 31337  # default" in lines
        assert "#certificate_file =  # default" in lines
        assert "hunter2" not in run.stdout
        assert any(line.startswith('aws_secret_access_key = "***"') for line in lines)
        assert 'peer_token = "***"  # LANCE_GATEWAY_WRITES__PEER_TOKEN' in lines

    @pytest.mark.slow
    def test_what_show_prints_can_be_loaded(self, tmp_path: Path) -> None:
        run = config("show", "--root", "/x", "--set", "limits.query_timeout=90s", "--storage-option", "a=b")
        assert load(file=written(tmp_path, run.stdout)).config.limits.query_timeout == 90.0

    def test_the_page_is_the_reference(self) -> None:
        assert PAGE.read_text() == render_reference(), (
            "run: lance-gateway config reference > docs/configuration.md"
        )
