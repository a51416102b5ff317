#!/usr/bin/env bash
# croniter 7.0.0: "30 2 * * *" runs twice in the night in which the clocks go back, at both half past two. cronsim 2.8,
# which follows Debian's cron, runs it once (a job at a fixed hour), and repeats only jobs with a * for the hour or the
# minute. Expected was once a day, as crontab's manual promises. Nightly billing or a report is queued twice each October.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install croniter==7.0.0 cronsim==2.8 tzdata==2026.6
"$folder/venv/bin/python" - <<'PROGRAM'
import importlib.metadata
import itertools
from datetime import datetime
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

for name in ("croniter", "cronsim"):
    print(name, importlib.metadata.version(name))
zone = ZoneInfo("Europe/Berlin")
begin, end = datetime(2026, 10, 24, 12, tzinfo=zone), datetime(2026, 10, 26, 12, tzinfo=zone)
night, next_night = ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"], "2026-10-26T02:30:00+01:00"
expected = {"croniter": [*night, next_night], "cronsim": [night[0], next_night]}
for name, times in {
    "croniter": croniter("30 2 * * *", begin, ret_type=datetime),
    "cronsim": CronSim("30 2 * * *", begin),
}.items():
    runs = [at.isoformat() for at in itertools.takewhile(lambda at: at < end, times)]
    print(f"{name:8}", *runs)
    assert runs == expected[name]
PROGRAM
