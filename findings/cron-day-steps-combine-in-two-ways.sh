#!/usr/bin/env bash
# The schedule "0 0 */2 * MON" means two things. robfig/cron 3.0.1 (the parser of Kubernetes' CronJob) and croniter 7.0.0
# run on every second day and on every Monday; cronsim 2.8, which follows Debian's cron, runs on Mondays with an odd day
# of the month, since a day field that begins with * does not widen the other one. "5,*" is the other way round: the first
# two run on Mondays, cronsim every day. Expected was one answer. A schedule that moves from a crontab to a CronJob runs
# nine times as often.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install croniter==7.0.0 cronsim==2.8
cd "$folder"
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/schedules 2>log
go get github.com/robfig/cron/v3@v3.0.1 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/robfig/cron/v3"
)

func main() {
	schedule, err := cron.ParseStandard(os.Args[1])
	if err != nil {
		panic(err)
	}
	end := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for at := schedule.Next(time.Date(2025, 12, 31, 12, 0, 0, 0, time.UTC)); at.Before(end); at = schedule.Next(at) {
		fmt.Print(at.Day(), " ")
	}
}
PROGRAM
go build -o robfig . 2>>log
cat >python.py <<'PROGRAM'
import itertools
import sys
from datetime import datetime
from croniter import croniter
from cronsim import CronSim

library, text = sys.argv[1:]
begin = datetime(2025, 12, 31, 12)
times = croniter(text, begin, ret_type=datetime) if library == "croniter" else CronSim(text, begin)
print(*(at.day for at in itertools.takewhile(lambda at: at < datetime(2026, 2, 1), times)), "", end="")
PROGRAM
check() { # schedule, library, expected days of January 2026
  local days
  case $2 in
    robfig) days=$(./robfig "$1") ;;
    *) days=$("$folder/venv/bin/python" python.py "$2" "$1") ;;
  esac
  printf '%-16s %-9s %s\n' "$1" "$2" "$days"
  test "$days" = "$3 "
}
echo "robfig/cron 3.0.1, croniter 7.0.0, cronsim 2.8: days of January 2026 (Mondays are 5, 12, 19 and 26)"
odd_and_mondays="1 3 5 7 9 11 12 13 15 17 19 21 23 25 26 27 29 31"
check "0 0 */2 * MON" robfig "$odd_and_mondays"
check "0 0 */2 * MON" croniter "$odd_and_mondays"
check "0 0 */2 * MON" cronsim "5 19"
check "0 0 5,* * MON" robfig "5 12 19 26"
check "0 0 5,* * MON" croniter "5 12 19 26"
check "0 0 5,* * MON" cronsim "$(seq -s ' ' 31)"
