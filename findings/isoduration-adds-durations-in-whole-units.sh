#!/usr/bin/env bash
# isoduration 20.11.0 (Python; jsonschema's format "duration" depends on it): a duration that is added to a datetime is
# rounded in each of its parts. PT1.5H adds two hours, PT0.5S a second and PT0.4S nothing, and the microseconds of the
# datetime are dropped, also by PT0S. Expected were 90 minutes, as isodate 0.7.2 adds, or an error: the text is parsed
# as Decimal("1.5"), and the algorithm of XML Schema, which the library names as its own, keeps fractions of a second. A
# timeout of PT1.5H is a third too long.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install isoduration==20.11.0 isodate==0.7.2
"$folder/venv/bin/python" - <<'PROGRAM'
from datetime import UTC, datetime
from decimal import Decimal

import isodate
import isoduration

start = datetime(2026, 1, 1, 10, 0, 0, 250_000, tzinfo=UTC)
answers = {}
for text in ("PT90M", "PT1.5H", "PT0.5S", "PT0.4S", "PT0S", "P0.5D"):
    answers[text] = tuple(
        str(start + parse(text) - start) for parse in (isoduration.parse_duration, isodate.parse_duration)
    )
    print(text, "is added as", *answers[text], "(isoduration 20.11.0, isodate 0.7.2)")
assert isoduration.parse_duration("PT1.5H").time.hours == Decimal("1.5")
assert answers == {
    "PT90M": ("1:29:59.750000", "1:30:00"),
    "PT1.5H": ("1:59:59.750000", "1:30:00"),
    "PT0.5S": ("0:00:00.750000", "0:00:00.500000"),
    "PT0.4S": ("-1 day, 23:59:59.750000", "0:00:00.400000"),
    "PT0S": ("-1 day, 23:59:59.750000", "0:00:00"),
    "P0.5D": ("23:59:59.750000", "12:00:00"),
}, answers
PROGRAM
