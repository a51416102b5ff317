#!/usr/bin/env bash
# opentelemetry-exporter-prometheus 0.66b2: two attributes that get the same label name, such as queue.name and
# queue_name, are not joined: one value is dropped, and which one depends on the order in which they were set.
# OpenTelemetry's specification wants both values in one label, with ";" between them, and that was expected. Besides,
# two series that differ only in the dropped attribute are exported as one name with the same labels twice, which
# Prometheus does not store as two series.
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

print("opentelemetry-exporter-prometheus", importlib.metadata.version("opentelemetry-exporter-prometheus"))
meter = MeterProvider(metric_readers=[PrometheusMetricReader()]).get_meter("orders")
meter.create_counter("first").add(1, {"queue.name": "mail", "queue_name": "bulk"})
meter.create_counter("second").add(1, {"queue_name": "bulk", "queue.name": "mail"})
third = meter.create_counter("third")
third.add(1, {"queue.name": "mail", "queue_name": "bulk"})
third.add(2, {"queue.name": "news", "queue_name": "bulk"})
lines = generate_latest(REGISTRY).decode().splitlines()
scope = 'otel_scope_name="orders",otel_scope_schema_url="",otel_scope_version=""'
samples = [line.replace(scope + ",", "") for line in lines if line.startswith(("first", "second", "third"))]
print(*samples, sep="\n")
assert samples == [
    'first_total{queue_name="bulk"} 1.0',
    'second_total{queue_name="mail"} 1.0',
    'third_total{queue_name="bulk"} 1.0',
    'third_total{queue_name="bulk"} 2.0',
]
PROGRAM
