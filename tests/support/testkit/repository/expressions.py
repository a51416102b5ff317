"""The expressions of the chart's alerts and dashboard, and the series that they select."""

import json
import re

import yaml

from testkit.repository.chart import FOLDER

_WITHOUT_SERIES_YET = {"claimq_claims_given_back_total", "claimq_sidecar_store_errors_total"}
_WHILE_TRUE = {'{condition="PauseForgotten"}', '{condition="Full"}'}
"""Conditions that a queue has only while they are true."""
VARIABLES = {"$namespace": ".*", "$queue": ".*", "$__rate_interval": "5m"}


def expressions() -> list[str]:
    """Those of all alerts, and those of all panels with their variables replaced."""
    (group,) = yaml.safe_load((FOLDER / "files/alerts.yaml").read_text())["groups"]
    panels = json.loads((FOLDER / "files/dashboard.json").read_text())["panels"]
    drawn = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for name, value in VARIABLES.items():
        drawn = [expression.replace(name, value) for expression in drawn]
    return [*(rule["expr"] for rule in group["rules"]), *drawn]


def selectors(expression: str) -> list[tuple[str, str]]:
    """The names of series in an expression, each with its label matchers in braces, or an empty text."""
    return re.findall(r"(claimq_\w+)(\{[^}]*\})?", expression)


def has_series(family: str, matchers: str) -> bool:
    """Whether there are such series while all is well and nothing was given back."""
    return family not in _WITHOUT_SERIES_YET and matchers not in _WHILE_TRUE
