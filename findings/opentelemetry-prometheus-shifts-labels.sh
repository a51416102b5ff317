#!/usr/bin/env bash
# opentelemetry-exporter-prometheus 0.66b2: if two meters have a counter of the same name with different attributes, the
# values of the second meter appear under the labels of the first. The attributes tenant="acme" and zone="eu" of
# "billing" are exported as queue="acme", a label that "billing" never set, and zone is gone. Expected were labels of its
# own for each meter, which the format allows. Two libraries that both count "jobs" are mixed up on every dashboard.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install opentelemetry-exporter-prometheus==0.66b2 opentelemetry-sdk==1.45.2
"$folder/venv/bin/python" - <<'PROGRAM'
import importlib.metadata

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest

provider = MeterProvider(metric_readers=[PrometheusMetricReader()])
provider.get_meter("orders").create_counter("jobs").add(1, {"queue": "mail"})
provider.get_meter("billing").create_counter("jobs").add(2, {"tenant": "acme", "zone": "eu"})
lines = [line for line in generate_latest(REGISTRY).decode().splitlines() if line.startswith("jobs")]
print("opentelemetry-exporter-prometheus", importlib.metadata.version("opentelemetry-exporter-prometheus"))
print(*lines, sep="\n")
scope = 'otel_scope_name="{}",otel_scope_schema_url="",otel_scope_version=""'
assert lines == [
    "jobs_total{" + scope.format("orders") + ',queue="mail"} 1.0',
    "jobs_total{" + scope.format("billing") + ',queue="acme"} 2.0',
]
PROGRAM
