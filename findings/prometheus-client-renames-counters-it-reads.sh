#!/usr/bin/env bash
# prometheus-client 0.26.0: its parser of the text format gives the sample of a counter another name than the page has.
# "jobs 5" under "# TYPE jobs counter" is read as jobs_total, since OpenMetrics wants that ending; the text format does
# not, and Prometheus itself keeps "jobs". Expected was the name on the page. A test or an autoscaler that looks the
# metric up by its name finds nothing, while untyped samples and gauges keep their names.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install prometheus-client==0.26.0
"$folder/venv/bin/python" - <<'PROGRAM'
import importlib.metadata

from prometheus_client.parser import text_string_to_metric_families

print("prometheus-client", importlib.metadata.version("prometheus-client"))
expected = {"counter": "jobs_total", "gauge": "jobs", "untyped": "jobs"}
for kind, name in expected.items():
    page = f"# TYPE jobs {kind}\njobs 5\n"
    names = [sample.name for family in text_string_to_metric_families(page) for sample in family.samples]
    print(f"{page!r:34} has the samples {names}")
    assert names == [name]
PROGRAM
