"""Alerts ask for metrics that exist, and their runbooks name settings, tables and commands that exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lance_gateway.gateway.config.schema import GatewayConfig
from lance_gateway.pipeline.keeping.metrics import KeeperMetrics
from lance_gateway.pipeline.status.shown import format_exposition
from tests.docker.test_compose import FOLDER, exposed
from tests.support.processes.servers import GatewayProcess, fetch, open_connection

RUNBOOKS = FOLDER.parent / "docs" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))
TARGET_LABELS = {"job", "instance"}
"""Which Prometheus adds."""


def list_alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Names of all metrics of gateways and keepers, with their labels."""
    found = exposed(tmp_path_factory.mktemp("root"))
    keeper = KeeperMetrics()
    text = generate_latest(keeper.registry).decode() + format_exposition((), regions=False)
    for family in text_string_to_metric_families(text):
        for name in (family.name, f"{family.name}_total"):
            found[name] = {"table", "step", "outcome", "index"}
    return found | {"up": set()}


def find_selectors(expression: Any) -> Iterator[promql_parser.VectorSelector]:
    """Yield the selectors of an expression."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("lhs", "rhs", "expr", "vector_selector", "vs", "args"):
        child = getattr(expression, name, None)
        for one in child if isinstance(child, list) else [child]:
            if one is not None:
                yield from find_selectors(one)


@pytest.mark.parametrize("alert", list_alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_asks_for_metrics_that_exist(alert: dict[str, Any], metrics: dict[str, set[str]]) -> None:
    selectors = list(find_selectors(promql_parser.parse(alert["expr"])))
    assert selectors
    for selector in selectors:
        assert selector.name in metrics
        asked = {matcher.name for matcher in selector.matchers.matchers}
        assert asked - TARGET_LABELS <= metrics[selector.name]
    told = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
    known = set().union(*(metrics[selector.name] for selector in selectors))
    assert told - TARGET_LABELS <= known


def test_each_alert_has_a_page_and_each_page_an_alert() -> None:
    named: dict[str, set[str]] = {}
    for alert in list_alerts():
        named.setdefault(alert["annotations"]["runbook"], set()).add(alert["alert"])
    assert set(named) == {f"docs/runbooks/{page.name}" for page in PAGES}
    for page, alerts in named.items():
        told = set(re.findall(r"`(Lance[A-Z]\w+)`", (FOLDER.parent / page).read_text()))
        assert told == alerts, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_settings_that_a_page_names_exist(page: Path) -> None:
    fields = GatewayConfig.model_fields
    for section, key in re.findall(r"`([a-z]+)\.([a-z_]+)(?: = [^`]*)?`", page.read_text()):
        if section != "system":
            assert key in fields[section].annotation.model_fields, f"{section}.{key}"  # type: ignore[union-attr]


@pytest.mark.slow
def test_statements_of_the_pages_run(root: Path) -> None:
    statements = [
        statement for page in PAGES for statement in re.findall(r"`(SELECT [^`]*)`", page.read_text())
    ]
    assert len(statements) >= 6
    with GatewayProcess(root, "--insecure") as gateway, open_connection(gateway.uri) as connection:
        for statement in statements:
            fetch(connection, statement)
