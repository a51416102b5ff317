"""kube-score finds nothing in a release that `kube_score_exceptions.toml` does not explain."""

import json
import subprocess
import tomllib
from pathlib import Path

from clusterkit import build
from testkit.repository.chart import Chart
from testkit.waiting import PATIENCE

EVERYTHING = (
    "valkey.enabled=true",
    "networkPolicy.enabled=true",
    "operator.replicas=2",
    "crds.keep=false",
    "web.enabled=true",
    "producers.enabled=true",
)
WORST_GRADE_OF_NO_FINDING = 7
"""kube-score: 1 is critical, 5 a warning, 7 almost right, 10 right."""


def findings(chart: Chart) -> dict[tuple[str, str], str]:
    """What kube-score reports: component and check, and its words."""
    rendered = chart.template(*EVERYTHING).stdout
    scored = subprocess.run(
        [build.kube_score(), "score", "--output-format=json", "-"],
        input=rendered,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    found: dict[tuple[str, str], str] = {}
    for one in json.loads(scored.stdout):
        component = (
            one["object_meta"].get("labels", {}).get("app.kubernetes.io/component", one["object_name"])
        )
        for check in one["checks"]:
            if not check["skipped"] and check["grade"] < WORST_GRADE_OF_NO_FINDING:
                found[component, check["check"]["id"]] = f"{one['object_name']}: {check['comments']}"
    return found


def test_every_finding_is_explained_and_every_explanation_is_needed(chart: Chart) -> None:
    explained = tomllib.loads((Path(__file__).parent / "kube_score_exceptions.toml").read_text())
    known = {(component, check) for component, checks in explained.items() for check in checks}
    found = findings(chart)
    assert {key: said for key, said in found.items() if key not in known} == {}
    assert known - found.keys() == set(), "these are no longer found: remove them from the file"
