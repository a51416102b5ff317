#!/usr/bin/env bash
# APScheduler 3.11.3: CronTrigger.from_crontab("0 0 * * 1-5") fires from Tuesday to Saturday, since its weekday 0 is Monday
# also in a line of crontab, where it is Sunday. arq 0.28.0 counts so too (weekday=0). pycron 3.3.0, which taskiq's
# scheduler uses, takes 7 without an error and never fires, and "5-7" and "6-0" lose Sunday. Expected was what croniter
# 7.0.0 and huey 3.5.4 do: 0 and 7 are Sunday, and 1-5 are the days from Monday to Friday.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install apscheduler==3.11.3 arq==0.28.0 pycron==3.3.0 croniter==7.0.0 huey==3.5.4
"$folder/venv/bin/python" - <<'PROGRAM'
from datetime import datetime, timedelta, timezone

import pycron
from apscheduler.triggers.cron import CronTrigger
from arq.cron import next_cron
from croniter import croniter
from huey import crontab

WEEK = [datetime(2026, 11, 23, tzinfo=timezone.utc) + timedelta(days=day) for day in range(7)]  # from a Monday


def days(fires):
    return " ".join(day.strftime("%a") for day in WEEK if fires(day.replace(tzinfo=None)))


def apscheduler_fires(line):
    trigger = CronTrigger.from_crontab(line, timezone=timezone.utc)
    return lambda day: trigger.get_next_fire_time(None, day.replace(tzinfo=timezone.utc)).day == day.day


readers = {
    "APScheduler": apscheduler_fires,
    "pycron": lambda line: lambda day: pycron.is_now(line, day),
    "croniter": lambda line: lambda day: croniter.match(line, day),
    "huey": lambda line: crontab(minute="0", hour="0", day_of_week=line.split()[-1]),
}
table = {}
for weekdays in ("0", "1-5", "7", "5-7", "6-0"):
    for name, reader in readers.items():
        try:
            table[name, weekdays] = days(reader(f"0 0 * * {weekdays}"))
        except ValueError:
            table[name, weekdays] = "refused"
    print(f"{weekdays:4}", {name: table[name, weekdays] for name in readers})
assert table["APScheduler", "0"] == "Mon" and table["APScheduler", "1-5"] == "Tue Wed Thu Fri Sat"
assert [table["pycron", weekdays] for weekdays in ("0", "7", "5-7", "6-0")] == ["Sun", "", "Fri Sat", "Sat"]
for name in ("croniter", "huey"):
    expected = ["Sun", "Mon Tue Wed Thu Fri", "Sun", "Fri Sat Sun", "Sat Sun"]
    assert [table[name, weekdays] for weekdays in ("0", "1-5", "7", "5-7", "6-0")] == expected, name
first = next_cron(WEEK[2], weekday=0, hour=0, minute=0).strftime("%a")
print("arq, weekday=0:", first)
assert first == "Mon"
PROGRAM
