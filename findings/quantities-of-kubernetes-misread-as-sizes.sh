#!/usr/bin/env bash
# Readers of sizes take quantities of Kubernetes and return other numbers. bytes 3.1.2 (npm; Express reads its limits by
# it) ignores every unit that it does not know: "64Mi", "64MiB" and "64M" are 64 bytes, only "64MB" is 67,108,864.
# humanfriendly 10.0 (Python) reads "64Mi" and "64m" as 64,000,000 and "64MiB" as 67,108,864. Expected was 67,108,864 for
# "64Mi", as the kubernetes client 37.0.2 reads it, or an error. An app that is given the limit of its queue in the words
# of the manifest (64Mi) refuses bodies over 64 bytes, or items that the queue takes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install humanfriendly==10.0 kubernetes==37.0.2
npm install --silent --no-audit --no-fund --prefix "$folder" bytes@3.1.2 >"$folder/npm.log"
cd "$folder"
"$folder/venv/bin/python" - <<'PROGRAM'
from humanfriendly import parse_size
from kubernetes.utils import parse_quantity

expected = {"64Mi": (67108864, 64000000), "64Ki": (65536, 64000), "64M": (64000000, 64000000), "64MiB": (None, 67108864)}
for text, sizes in expected.items():
    quantity = None if text.endswith("B") else int(parse_quantity(text))
    print(text, "kubernetes:", quantity, "humanfriendly:", parse_size(text))
    assert (quantity, parse_size(text)) == sizes
PROGRAM
node - <<'PROGRAM'
const assert = require("node:assert");
const bytes = require("bytes");
const sizes = ["64Mi", "64MiB", "64M", "64MB"].map((text) => bytes.parse(text));
console.log("bytes (npm)", sizes);
assert.deepStrictEqual(sizes, [64, 64, 64, 67108864]);
PROGRAM
