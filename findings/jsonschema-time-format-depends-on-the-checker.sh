#!/usr/bin/env bash
# jsonschema 4.26.0 with its format extra: the format "time" has two opposite meanings. FormatChecker() takes it as
# Draft 3 did (10:00:00 is right, 10:00:00Z is wrong), whatever draft the validator has; the validator's own
# FORMAT_CHECKER takes RFC 3339 (10:00:00 is wrong, 10:00:00Z is right). Expected was that a Draft 2020-12 validator with
# FormatChecker() follows Draft 2020-12, as it does for dates and durations. A schedule passes one check and fails the other.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install 'jsonschema[format]==4.26.0'
"$folder/venv/bin/python" - <<'PROGRAM'
import importlib.metadata

from jsonschema import Draft202012Validator, FormatChecker

print("jsonschema", importlib.metadata.version("jsonschema"))
checkers = {"FormatChecker()": FormatChecker(), "FORMAT_CHECKER": Draft202012Validator.FORMAT_CHECKER}
expected = {
    ("time", "10:00:00"): (True, False),
    ("time", "10:00:00Z"): (False, True),
    ("date-time", "2026-11-27T10:00:00Z"): (True, True),
    ("date-time", "2026-11-27T10:00:00"): (False, False),
}
for (name, text), right in expected.items():
    answers = tuple(
        Draft202012Validator({"format": name}, format_checker=checker).is_valid(text) for checker in checkers.values()
    )
    print(f"{name:9} {text:21}", dict(zip(checkers, answers)))
    assert answers == right, answers
PROGRAM
