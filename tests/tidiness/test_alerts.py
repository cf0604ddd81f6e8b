"""Alerts and the operations guide speak of metrics that a worker has, and of one another."""

from __future__ import annotations

import re
from pathlib import Path

from streams.kafka.worker.metrics import Metrics

ROOT = Path(__file__).parents[2]
ALERTS = (ROOT / "config" / "alerts.yaml").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def known() -> set[str]:
    """Names of metrics as Prometheus stores them."""
    held = Metrics()
    held.dead_letters.labels("any").inc()
    return set(re.findall(r"^# TYPE (\w+)", held.render().decode(), re.MULTILINE))


def test_rules_ask_for_metrics_that_are_there() -> None:
    asked = set(re.findall(r"\blostfound_\w+", ALERTS))
    assert len(asked) >= 6
    assert asked <= known()


def test_the_guide_says_what_each_alert_means() -> None:
    named = re.findall(r"- alert: (\w+)", ALERTS)
    section = GUIDE.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == named


def test_the_guide_names_metrics_that_are_there() -> None:
    section = GUIDE.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(lostfound_\w+)", section)) <= known()


def test_each_rule_says_what_it_looks_at() -> None:
    rules = ALERTS.partition("rules:")[2].split("- alert:")[1:]
    assert all(re.search(r"^\s+expr: \S", rule, re.MULTILINE) for rule in rules)
    assert all(rule.count("(") == rule.count(")") and rule.count("[") == rule.count("]") for rule in rules)
