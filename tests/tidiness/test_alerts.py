"""Test that the alerts and the operations guide name existing metrics, and that the guide explains every alert."""

from __future__ import annotations

import re
from pathlib import Path

from streams.kafka.worker.metrics import Metrics

ROOT = Path(__file__).parents[2]
ALERTS = (ROOT / "config" / "alerts.yaml").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def metric_names() -> set[str]:
    """Return the names of all metrics as Prometheus stores them."""
    metrics = Metrics()
    metrics.dead_letters.labels("any").inc()
    return set(re.findall(r"^# TYPE (\w+)", metrics.render().decode(), re.MULTILINE))


def test_alerts_query_existing_metrics() -> None:
    queried = set(re.findall(r"\blostfound_\w+", ALERTS))
    assert len(queried) >= 6
    assert queried <= metric_names()


def test_the_guide_explains_every_alert() -> None:
    alerts = re.findall(r"- alert: (\w+)", ALERTS)
    section = GUIDE.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == alerts


def test_the_guide_names_existing_metrics() -> None:
    section = GUIDE.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(lostfound_\w+)", section)) <= metric_names()


def test_every_alert_has_a_balanced_expression() -> None:
    rules = ALERTS.partition("rules:")[2].split("- alert:")[1:]
    assert all(re.search(r"^\s+expr: \S", rule, re.MULTILINE) for rule in rules)
    assert all(rule.count("(") == rule.count(")") and rule.count("[") == rule.count("]") for rule in rules)
