"""Alerts, dashboard and scrape configuration against the metrics. Left open: whether thresholds are right."""

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.docs.test_docs import anchors, page, section
from tests.support.promql import used

ROOT = Path(__file__).parents[2]
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text())
EXPRESSIONS = [(rule["alert"], rule["expr"]) for rule in RULES] + [
    (f"panel {panel['id']}{target['refId']}", target["expr"])
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus gives to every series, and to `up`, which it makes itself."""


def cells(table: str) -> list[list[str]]:
    """The rows of a table whose first cell is a name in backticks, which are left out."""
    rows = [line.split("|")[1:-1] for line in table.splitlines() if re.match(r"\| `\w+` \|", line)]
    return [[name.strip(" `"), *map(str.strip, others)] for name, *others in rows]


def documented() -> dict[str, set[str]]:
    """The labels of every metric."""
    rows = cells(section(page("operations/monitoring.md"), "## Metrics"))
    metrics = [(name, kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels, *_ in rows if "_" in name]
    buckets = {f"{name}_bucket": {*labels, "le"} for name, kind, labels in metrics if kind == "histogram"}
    return {name: labels for name, _, labels in metrics} | buckets | {"up": set()}


@pytest.mark.parametrize(("name", "expression"), EXPRESSIONS, ids=[name for name, _ in EXPRESSIONS])
def test_an_expression_asks_for_metrics_and_labels_that_exist(name: str, expression: str):
    known = documented()
    asked = used(expression)
    assert asked
    assert [one for one in asked if one.metric not in known] == []
    assert [one for one in asked if not one.labels <= known[one.metric] | OF_PROMETHEUS] == []


def test_what_is_no_expression_is_found():
    with pytest.raises(ValueError, match="parenthesis"):
        used("max(mnemolog_workers")
    assert used('sum by (a) (rate(m{b="1"}[5m])) / max(n)') == [("m", {"a", "b"}), ("n", set())]
    assert promql_parser.parse("m > 1").prettify() == "m > 1"


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_says_what_it_is_how_bad_and_where_to_read_on(rule: dict[str, Any]):
    assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert all(rule["annotations"][name].strip() for name in ("summary", "description"))
    link = re.fullmatch(r"\{\{ \$externalLabels\.docs \}\}/(.+)\.html#(.+)", rule["annotations"]["runbook_url"])
    assert link is not None, "not an address below that of the documentation site"
    assert link[2] in anchors(ROOT / f"docs/{link[1]}.md")


def test_the_address_of_the_documentation_is_an_external_label_from_the_environment():
    configured = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())["global"]["external_labels"]
    assert configured == {"docs": "${DOCS_URL}"}
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["prometheus"]
    assert service["environment"] == {"DOCS_URL": "${DOCS_URL:-}"}


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_a_summary_names_only_labels_that_its_series_have(rule: dict[str, Any]):
    named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert named <= set[str]().union(*(one.labels for one in used(rule["expr"])), OF_PROMETHEUS)


def test_every_alert_is_in_the_monitoring_page_and_every_alert_there_exists():
    table = section(page("operations/monitoring.md"), "## Alerts")
    told = [(name, after.replace(" ", "")) for name, _, after, _ in cells(table)]
    assert told == [(rule["alert"], rule.get("for", "")) for rule in RULES]


def test_the_scrape_configuration_asks_for_the_metrics_route_and_loads_the_alerts():
    scrape = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())
    assert [(job["job_name"], job["metrics_path"]) for job in scrape["scrape_configs"]] == [("mnemolog", "/metrics")]
    assert [(ROOT / "deploy" / name).exists() for name in scrape["rule_files"]] == [True]
