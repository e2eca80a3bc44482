"""Units of systemd and the chart of Helm start what the command line and the configuration have."""

import os
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from lance_gateway.gateway.cli import app
from lance_gateway.gateway.cli.commands import collect_flags
from lance_gateway.gateway.config import load
from lance_gateway.gateway.config.schema import GatewayConfig
from tests.support.processes.ports import find_free_port
from tests.support.processes.programs import find_or_build, find_or_install
from tests.support.processes.servers import GatewayProcess

FOLDER = Path(__file__).parents[2] / "docker"
CHART = FOLDER / "helm"
UNITS = ("lance-gateway.service", "lance-gateway-keeper.service")
HELM = "helm.sh/helm/v3/cmd/helm@v3.18.4"
KUBERNETES_VALIDATE = "kubernetes-validate==1.37.*"
KUBERNETES = ("1.27", "1.37")
"""The oldest version that the chart is made for, and the newest one that the validator knows."""
PROGRAM = Path(sys.executable).with_name("lance-gateway")


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


class TestHealth:
    @pytest.mark.slow
    def test_it_reads_the_configuration_of_the_gateway(self, root: Path, tmp_path: Path):
        file = tmp_path / "lance.toml"
        port = find_free_port()
        file.write_text(f'root = "{root}"\n[observability]\nhttp_port = {port}\nhttp_host = "0.0.0.0"\n')
        asked = ["health", "--config", str(file)]
        with GatewayProcess(root, "--config", str(file)):
            ready = CliRunner().invoke(app, asked)
            assert (ready.exit_code, ready.stderr) == (0, "")
        gone = CliRunner().invoke(app, asked)
        assert gone.exit_code == 1
        assert f"error: no gateway answers at http://127.0.0.1:{port}/readyz" in gone.stderr

    @pytest.mark.parametrize("port", ["off", "0"])
    def test_a_gateway_without_a_port_for_it(self, root: Path, port: str):
        sets = ["--set", f"observability.http_port={port}"]
        asked = CliRunner().invoke(app, ["health", "--root", str(root), *sets])
        assert (asked.exit_code, "set observability.http_port" in asked.stderr) == (1, True)


def read_unit(name: str) -> ConfigParser:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # keys of systemd are not folded
    unit.read(FOLDER / "systemd" / name)
    return unit


class TestUnits:
    @pytest.mark.parametrize("name", UNITS)
    def test_systemd_takes_them(self, name: str):
        if shutil.which("systemd-analyze") is None:
            pytest.skip("systemd-analyze is not installed")
        path = FOLDER / "systemd" / name
        run = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
        # The program is not where it would be.
        assert [line for line in run.stderr.splitlines() if "is not executable" not in line] == []

    def test_time_to_stop_is_enough(self, root: Path):
        config = load_values(root, {})
        seconds = float(read_unit(UNITS[0])["Service"]["TimeoutStopSec"])
        assert seconds > config.server.drain + config.writes.flush_timeout + 10

    @pytest.mark.slow
    @pytest.mark.parametrize("name", UNITS)
    @pytest.mark.soak
    def test_the_start_command_runs(self, name: str, root: Path, tmp_path: Path):
        file = tmp_path / "lance.toml"
        file.write_text(f'root = "{root}"\n[observability]\nhttp_port = "off"\n[server]\nport = 0\n')
        words = read_unit(name)["Service"]["ExecStart"].split()
        assert words[0] == "/opt/lance-gateway/bin/lance-gateway"
        command = [str(PROGRAM), *words[1:]]
        if "pipeline" in words:
            command.append("--once")
        environment = {"PATH": os.environ["PATH"], "LANCE_GATEWAY_CONFIG": str(file)}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            if "serve" in words:
                assert process.stdout is not None
                assert f"serves {root} at grpc://127.0.0.1:" in process.stdout.readline()
                process.terminate()
            _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said


def load_values(root: Path, sections: dict[str, dict[str, Any]]) -> GatewayConfig:
    """The configuration of a gateway with these values, which a file would have."""
    sets = [f"{section}.{key}={value}" for section, keys in sections.items() for key, value in keys.items()]
    return load(collect_flags(str(root), None, sets)).config


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> str:
    return find_or_build("helm", HELM, tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Checks objects by the schemas of versions of Kubernetes, which it brings along."""
    folder = tmp_path_factory.mktemp("validator")
    return find_or_install("kubernetes-validate", KUBERNETES_VALIDATE, folder)


class TestChart:
    def test_its_versions_are_those_of_the_program(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
        assert chart["version"] == chart["appVersion"] == project["version"]

    def test_its_configuration_is_one_and_pods_may_take_the_time_to_stop(
        self, values: dict[str, Any], root: Path
    ):
        sections = {name: keys for name, keys in values["config"].items() if name != "pipeline"}
        config = load_values(root, sections)
        total = config.server.stop_delay + config.server.drain + config.writes.flush_timeout
        assert values["terminationGracePeriodSeconds"] > total

    @pytest.mark.soak
    @pytest.mark.parametrize(
        "sets",
        [
            ["insecure=true"],
            ["peerToken.existingSecret=peers", "keeper.enabled=false", "serviceAccount.name=lake"],
            ["envFrom[0].secretRef.name=s3", "nodeSelector.disk=fast", "podAnnotations.a=b"],
        ],
        ids=lambda sets: sets[0],
    )
    def test_helm_renders_it(self, helm: str, validator: str, sets: list[str], tmp_path: Path):
        options = [word for one in sets for word in ("--set", one)]
        run = subprocess.run(
            [helm, "template", "lake", CHART, "--kube-version", "1.30.0", *options],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        rendered = tmp_path / "rendered.yaml"
        rendered.write_text(run.stdout)
        for version in KUBERNETES:
            checking = [validator, "--strict", "--kubernetes-version", version, rendered]
            checked = subprocess.run(checking, capture_output=True, text=True, check=False)
            assert checked.returncode == 0, checked.stdout + checked.stderr
        objects = {
            (one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(run.stdout) if one
        }
        gateway = objects["StatefulSet", "lake-lance-gateway"]["spec"]["template"]["spec"]
        file = tmp_path / "lance.toml"
        file.write_text(objects["ConfigMap", "lake-lance-gateway"]["data"]["lance.toml"])
        (container,) = gateway["containers"]
        secret = "a-secret-of-enough-characters"
        variables = {one["name"]: one.get("value", secret) for one in container["env"]}
        shown = CliRunner().invoke(
            app, ["config", "show", "--config", str(file), "--root", str(tmp_path)], env=variables
        )
        assert shown.exit_code == 0, shown.output
        assert ("Deployment", "lake-lance-gateway-keeper") in objects or "keeper.enabled=false" in sets
        labels = objects["StatefulSet", "lake-lance-gateway"]["spec"]["template"]["metadata"]["labels"]
        for (kind, _), one in objects.items():
            if kind == "Service":
                assert one["spec"]["selector"].items() <= labels.items()
