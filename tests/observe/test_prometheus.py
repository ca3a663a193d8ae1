"""Metrics, alerts and the Grafana dashboard, judged by a real Prometheus that scraped a real daemon through three episodes."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "adaptd.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if "targets" in panel]

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing: apt-get install prometheus")


def promtool(*words: object, text: str | None = None) -> str:
    """Run it; it must agree."""
    run = subprocess.run(["promtool", *map(str, words)], input=text, capture_output=True, text=True, check=False, cwd=DEPLOY)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_every_alert_fires_and_clears():
    """The shipped rules are valid, and their own tests pass; none of them is without a test."""
    assert "SUCCESS" in promtool("check", "rules", "prometheus/alerts.yml")
    assert "SUCCESS" in promtool("test", "rules", "prometheus/alerts.test.yml")
    promtool("check", "config", "prometheus/prometheus.yml")
    alerts = set(re.findall(r"alert: (\w+)", (DEPLOY / "prometheus" / "alerts.yml").read_text()))
    tests = (DEPLOY / "prometheus" / "alerts.test.yml").read_text()
    fired = set(re.findall(r"alertname: (\w+)\n +exp_alerts", tests))
    cleared = set(re.findall(r"eval_time: \w+, alertname: (\w+) }", tests))
    assert fired == cleared == alerts


def test_live_metrics_are_clean(lived):
    """Promtool has nothing to say about a live scrape of daemon and server; every figure of three episodes is there."""
    for address in (lived.shop.address, lived.serving):
        assert promtool("check", "metrics", text=httpx.get(f"{address}/metrics").text) == ""
    text = httpx.get(f"{lived.shop.address}/metrics").text
    for line in (
        "adaptd_episode_duration_seconds_count 4.0",
        'adaptd_episodes_total{outcome="failed"} 0.0',
        'adaptd_images_quarantined{reason="not-an-image"} 3.0',
        'adaptd_images_quarantined{reason="too-costly"} 0.0',
        'adaptd_versions{state="candidate"} 0.0',
        'adaptd_daemon_state{state="degraded"} 0.0',
    ):
        assert line in text.splitlines()
    assert re.search(r'adaptd_constraint_active_ratio\{constraint="memory"\} [01]\.', text)
    assert re.search(r"adaptd_served_version_timestamp_seconds 1\.\d+e\+09", text)


def test_counters_grow_and_never_fall(lived):
    """What Prometheus saw in three episodes."""
    assert lived.ask("resets(adaptd_episode_duration_seconds_count[10m])")[0]["value"][1] == "0"
    assert float(lived.ask("max_over_time(adaptd_episodes_total{outcome='done'}[10m])")[0]["value"][1]) == 4


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_panel_returns_data(lived, panel):
    """Each expression of the Grafana dashboard gives something."""
    for target in panel["targets"]:
        assert lived.ask(target["expr"].replace("$__rate_interval", "2m")), target["expr"]


def test_every_alert_expression_is_answered(lived):
    """Prometheus loaded the rules, evaluated each without an error, and none of them fires in a healthy project."""
    groups = httpx.get(f"{lived.prometheus}/api/v1/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == 14
    assert [rule["name"] for rule in rules if rule["health"] == "err"] == []
    for rule in rules:
        lived.ask(rule["query"])
    firing = {rule["name"] for rule in rules if rule["state"] == "firing"}
    assert firing <= {"AdaptdVersionRejected", "AdaptdAccuracyFell"}, "the gate may reject what so little data gives"


def test_metrics_in_use_exist(lived):
    """Dashboard and alerts name no metric that nobody has."""
    names = set(httpx.get(f"{lived.prometheus}/api/v1/label/__name__/values").json()["data"])
    expressions = [target["expr"] for panel in PANELS for target in panel["targets"]]
    used = set(re.findall(r"\badaptd_[a-z_]+", " ".join([*expressions, (DEPLOY / "prometheus" / "alerts.yml").read_text()])))
    assert len(used) > 20
    assert used - names == set()
