#!/usr/bin/env bash
# Two readers of logfmt lose what its writers escape, for example logfmter 0.0.12 (Python). logfmt 0.4 (Python): after an
# escape other than \" the next quotation mark counts as text, so the value becomes True and the rest of the line is
# gone. logfmt 1.4.0 (npm): \n becomes the letter n. Both lose the second equals sign of url=/jobs?id=7, a line as many
# web servers log it. Expected was the value that was written. A log line of a failure whose reason has two lines or a
# backslash arrives without its other fields.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install logfmt==0.4 logfmter==0.0.12
cd "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" logfmt@1.4.0 >"$folder/npm.log"
cat >written.py <<'PROGRAM'
import logging

from logfmter import Logfmter

for text in ("first\nsecond", "C:\\jobs and more", "job=7"):
    record = logging.LogRecord("app", logging.INFO, "", 0, {"reason": text, "attempt": 2}, None, None)
    print(Logfmter(keys=[]).format(record))
print("url=/jobs?id=7 attempt=2")
PROGRAM
"$folder/venv/bin/python" written.py | tee lines
"$folder/venv/bin/python" - <<'PROGRAM'
import logfmt

with open("lines") as lines:
    records = list(logfmt.parse(lines))
print("logfmt (Python)", *records, sep="\n  ")
assert records == [
    {"reason": True},
    {"reason": True},
    {"reason": "job=7", "attempt": "2"},
    {"url": "/jobs?id", "7": True, "attempt": "2"},
]
PROGRAM
node - <<'PROGRAM'
const assert = require("node:assert");
const lines = require("node:fs").readFileSync("lines", "utf8").trim().split("\n");
const records = lines.map((line) => ({ ...require("logfmt").parse(line) }));
console.log("logfmt (npm)\n ", records);
assert.deepStrictEqual(records, [
  { reason: "firstnsecond", attempt: "2" },
  { reason: "C:\\jobs and more", attempt: "2" },
  { reason: "job=7", attempt: "2" },
  { url: "/jobs?id7", attempt: "2" },
]);
PROGRAM
