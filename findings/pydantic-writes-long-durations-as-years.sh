#!/usr/bin/env bash
# pydantic 2.14.3 writes a timedelta of 400 days as "P1Y35D" in JSON, with a year of 365 days. In ISO 8601 that is a
# calendar year: isodate 0.7.2 adds 401 days to an instant in a leap year, and msgspec 0.22.0 refuses the text. Expected
# was "P400D", since a timedelta has days and no years. A retention that one service writes is another length elsewhere.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install pydantic==2.14.3 isodate==0.7.2 msgspec==0.22.0
"$folder/venv/bin/python" - <<'PROGRAM'
import importlib.metadata
from datetime import datetime, timedelta

import isodate
import msgspec
import pydantic

for name in ("pydantic", "isodate", "msgspec"):
    print(name, importlib.metadata.version(name))
durations = pydantic.TypeAdapter(timedelta)
text = durations.dump_json(timedelta(days=400))
print("pydantic writes 400 days as", text.decode())
assert text == b'"P1Y35D"'
assert durations.validate_json(text) == timedelta(days=400)
begin = datetime(2027, 6, 1)  # 29 February 2028 follows
end = begin + isodate.parse_duration(text.decode().strip('"'))
print("isodate adds", (end - begin).days, "days")
assert (end - begin).days == 401
try:
    msgspec.json.decode(text, type=timedelta)
    refused = ""
except msgspec.ValidationError as error:
    refused = str(error)
print("msgspec:", refused)
assert refused.startswith("Only units")
PROGRAM
