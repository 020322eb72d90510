"""What the chart brings for the Prometheus operator, where that is asked for."""

import json

import yaml

from cluster.helm import CHART, Helm
from stage.rendered import Rendered, render
from stage.sessions import Body

BOOK = "https://git.example.com/kandev-operator/"


def rules(groups: list[Body]) -> list[Body]:
    return [rule for each in groups for rule in each["rules"]]


def test_metrics_are_scraped_where_that_is_asked_for(helm: Helm, by_default: Rendered) -> None:
    assert not by_default.of("ServiceMonitor")
    made = render(helm, "--set=serviceMonitor.enabled=true", "--set=serviceMonitor.labels.team=a")
    monitor, service = made.one("ServiceMonitor"), made.one("Service")
    chosen = monitor["spec"]["selector"]["matchLabels"].items()
    assert chosen <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {each["name"] for each in service["spec"]["ports"]}
    assert monitor["metadata"]["labels"]["team"] == "a"


def test_the_gateway_is_scraped_too(helm: Helm) -> None:
    made = render(helm, "--set=serviceMonitor.enabled=true", "--set=gateway.enabled=true")
    for name in ("kandev-operator", "kandev-operator-gateway"):
        chosen = made.one("ServiceMonitor", name)["spec"]["selector"]["matchLabels"].items()
        (service,) = (e for e in made.of("Service") if chosen <= e["metadata"]["labels"].items())
        assert service["metadata"]["name"] == name


def test_every_alert_is_there_with_the_address_of_its_page(
    helm: Helm, by_default: Rendered
) -> None:
    assert not by_default.of("PrometheusRule")
    wanted = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
    on = ["--set=prometheusRule.enabled=true", "--set=prometheusRule.labels.team=a"]
    made = render(helm, *on).one("PrometheusRule")
    assert made["spec"] == {"groups": wanted}
    assert made["metadata"]["labels"]["team"] == "a"
    found = render(helm, *on, f"--set=prometheusRule.runbookBase={BOOK}").one("PrometheusRule")
    assert len(rules(wanted)) > 10
    for rule, plain in zip(rules(found["spec"]["groups"]), rules(wanted), strict=True):
        page = plain["annotations"]["runbook_url"]
        assert rule["annotations"]["runbook_url"] == BOOK + page
        assert (CHART.parents[1] / page).exists()


def test_the_dashboard_is_found_by_its_label(helm: Helm, by_default: Rendered) -> None:
    assert not by_default.of("ConfigMap")
    made = render(helm, "--set=dashboard.enabled=true").one("ConfigMap")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = made["data"].values()
    assert json.loads(text) == json.loads((CHART / "files/dashboard.json").read_text())
