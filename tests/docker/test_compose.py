"""The compose file, Prometheus and the dashboard agree with each other and with the gateway."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lance_gateway.gateway.config import load
from lance_gateway.gateway.config.schema import GatewayConfig
from lance_gateway.gateway.execution.running_queries import Queries
from lance_gateway.gateway.execution.workers.process import WorkerEnd
from lance_gateway.gateway.observability.disks import Disks
from lance_gateway.gateway.observability.gauges import Gauges, WorkerCounts, WriteGauges, WriteMetrics
from lance_gateway.gateway.observability.statements import Metrics
from lance_gateway.gateway.start.opening import open_writing
from lance_gateway.planner.tables.state.catalog import Catalog

FOLDER = Path(__file__).parents[2] / "docker"
GATEWAYS = ("gateway", "gateway-2")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    return found


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "grafana" / "lance-gateway.json").read_text())
    return found


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def exposed(root: Path) -> dict[str, set[str]]:
    """Every sample name that a gateway shows, with the names of its labels."""
    metrics, queries = Metrics(), Queries()
    metrics.on_call_finished("DoGet", "OK", 0.1)
    catalog = Catalog.open(str(root))
    metrics.registry.register(Gauges(queries, (), (), catalog))
    metrics.registry.register(WriteGauges(catalog))
    pool = Mock(deaths=dict.fromkeys(WorkerEnd, 0), replacements=0, list_workers=list)
    metrics.registry.register(WorkerCounts(pool))
    disks = Disks({"root": root})
    metrics.registry.register(disks)
    writes = WriteMetrics(metrics.registry, lambda: ["orders"])
    writes.on_group("orders", "region", 1, 1, 8, 0.001)
    writes.on_claim("orders", "region", 1, 0.01)
    writes.on_forward("orders", "region", "grpc://gateway-2:31337", 1, 0.001)
    text = generate_latest(metrics.registry).decode()
    disks.close()
    catalog.close()
    queries.close()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        # Metrics per table have no samples before a table is read.
        names = [family.name] if family.samples or family.type != "counter" else [f"{family.name}_total"]
        for name in names:
            found.setdefault(name, {"table"} if not family.samples else set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_service_is_pinned_and_starts_after_what_it_needs(services: dict[str, Any]) -> None:
    assert set(services) == {"store", "bucket", *GATEWAYS, "keeper", "prometheus", "grafana", "spark"}
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        if "build" in service:
            assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        else:
            assert re.search(r":[\w.]*\d[\w.\-]*$", service["image"]), service["image"]
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", GATEWAYS)
def test_gateways_are_confined(services: dict[str, Any], name: str) -> None:
    gateway = services[name]
    assert gateway["read_only"] is True
    assert gateway["cap_drop"] == ["ALL"]
    build = FOLDER / gateway["build"]["context"] / gateway["build"]["dockerfile"]
    assert build.resolve() == FOLDER / "Dockerfile"


def configured(service: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> GatewayConfig:
    with monkeypatch.context() as patch:
        for name, value in service["environment"].items():
            patch.setenv(name, str(value))
        return load().config


@pytest.mark.parametrize("name", GATEWAYS)
def test_gateways_write_with_these_variables(
    services: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(services[name], monkeypatch)
    writing = open_writing(config)
    assert writing.options is not None
    assert writing.options.url == f"grpc://{name}:31337"
    writing.close()
    grace = services[name]["stop_grace_period"]
    assert float(grace.removesuffix("s")) > config.server.drain + config.writes.flush_timeout


def test_gateways_share_a_root_and_a_secret(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (configured(services[name], monkeypatch) for name in GATEWAYS)
    assert (first.root, first.storage_options) == (second.root, second.storage_options)
    assert first.writes.peer_token == second.writes.peer_token != ""


@pytest.mark.parametrize("name", ["gateway-2", "keeper", "spark"])
def test_whatever_reads_tables_finds_them(services: dict[str, Any], name: str) -> None:
    """And may: Spark's executors run in the container of its shell."""
    access = re.compile("LANCE_GATEWAY_(ROOT|STORAGE_OPTIONS__)")
    mine, gateways = (
        {key: value for key, value in services[one]["environment"].items() if access.match(key)}
        for one in (name, "gateway")
    )
    assert len(gateways) > 1
    assert mine == gateways


@pytest.mark.slow
def test_the_keeper_starts_with_its_command(services: dict[str, Any], tmp_path: Path) -> None:
    words = ["0" if word == "31338" else word for word in services["keeper"]["command"]]
    program = Path(sys.executable).with_name("lance-gateway")
    run = subprocess.run(
        [program, *words, "--once", "--root", tmp_path], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_spark_has_what_the_pipeline_needs() -> None:
    content = (FOLDER / "spark.Dockerfile").read_text()
    assert re.search(r"^ARG BASE=python:3\.\d+\.\d+-slim-bookworm$", content, re.MULTILINE)
    assert "USER 10001:10001" in content


def test_files_that_are_mounted_exist(services: dict[str, Any]) -> None:
    mounted = [volume for one in services.values() for volume in one.get("volumes", ())]
    sources = [volume.partition(":")[0] for volume in mounted if volume.startswith("./")]
    assert len(sources) == 5
    assert all((FOLDER / source).is_file() for source in sources)


def test_prometheus_scrapes_the_port_of_the_image() -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    targets = [one for job in config["scrape_configs"] for one in job["static_configs"][0]["targets"]]
    hosts, _, ports = zip(*(one.partition(":") for one in targets), strict=True)
    assert hosts == (*GATEWAYS, "keeper")
    for port in ports:
        assert f"LANCE_GATEWAY_OBSERVABILITY__HTTP_PORT={port}" in (FOLDER / "Dockerfile").read_text()


def test_the_data_source_is_the_one_the_dashboard_asks(dashboard: dict[str, Any]) -> None:
    provisioned = yaml.safe_load((FOLDER / "grafana" / "datasources.yaml").read_text())["datasources"]
    assert {one["uid"] for one in provisioned} == {"prometheus"}
    asked = {
        target["datasource"]["uid"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    }
    assert asked == {"prometheus"}


def test_the_dashboard_asks_for_metrics_and_labels_that_exist(
    dashboard: dict[str, Any], tmp_path: Path
) -> None:
    shown = exposed(tmp_path)
    asked = expressions(dashboard)
    assert len(asked) > 20
    for expression in asked:
        metrics = re.findall(r"\b((?:lance_gateway|process)_\w+)\{([^}]*)\}", expression)
        assert metrics, expression
        for name, matchers in metrics:
            assert name in shown, name
            labels = set(re.findall(r"(\w+)\s*[=!]~?", matchers)) | _grouped_by(expression)
            assert labels - {"instance"} <= shown[name], expression


def test_the_dashboard_shows_every_metric(dashboard: dict[str, Any], tmp_path: Path) -> None:
    asked = " ".join([*expressions(dashboard), json.dumps(dashboard["templating"])])
    for name in exposed(tmp_path):
        stem = re.sub(r"_(total|bucket|count|sum)$", "", name)
        assert not name.startswith("lance_gateway") or stem in asked, name


def test_panels_do_not_overlap(dashboard: dict[str, Any]) -> None:
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_dashboard_links_each_runbook(dashboard: dict[str, Any]) -> None:
    linked = [one["url"] for shown in (dashboard, *dashboard["panels"]) for one in shown.get("links", ())]
    pages = {url.removeprefix("${docs}/").removesuffix("/") for url in linked}
    docs = FOLDER.parent / "docs"
    assert pages >= {f"runbooks/{page.stem}" for page in (docs / "runbooks").glob("*.md")}
    assert [page for page in pages if not (docs / f"{page}.md").is_file()] == []
    assert "docs" in {variable["name"] for variable in dashboard["templating"]["list"]}


def _grouped_by(expression: str) -> set[str]:
    groups = re.findall(r"\bby \(([^)]*)\)", expression)
    return {name.strip() for group in groups for name in group.split(",")}
