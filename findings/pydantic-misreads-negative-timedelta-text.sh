#!/usr/bin/env bash
# pydantic 2.14.3: the text that Python prints for a negative duration is accepted and read as another duration. Python
# writes minus one second as "-1 day, 23:59:59" (the days are negative, the rest is added); pydantic applies the sign to
# the whole and gets minus two days plus one second. Expected was the value that was printed, or an error: the text of a
# positive duration is read back right. A delay or a clock skew that passes through str() grows by up to two days.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install pydantic==2.14.3
"$folder/venv/bin/python" - <<'PROGRAM'
from datetime import timedelta

import pydantic

print("pydantic", pydantic.VERSION)
durations = pydantic.TypeAdapter(timedelta)
expected = {
    timedelta(days=1, hours=2): timedelta(days=1, hours=2),
    timedelta(seconds=-1): timedelta(seconds=-172_799),
    timedelta(hours=-1): timedelta(hours=-47),
    timedelta(days=-2): timedelta(days=-2),
}
for duration, misread in expected.items():
    text = str(duration)
    value = durations.validate_python(text)
    print(f"{duration.total_seconds():>9.0f} s is printed as {text!r:20} and read as {value.total_seconds():>9.0f} s")
    assert value == misread, value
PROGRAM
