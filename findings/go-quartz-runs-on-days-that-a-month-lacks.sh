#!/usr/bin/env bash
# github.com/reugn/go-quartz 0.15.2 (Go): asked in a month that lacks the day, a cron trigger runs in the month after.
# On 2 April "0 0 0 31 * ?" answers 1 May (and then 31 May), on 1 February 2026 it answers 3 March, and "0 0 0 29 2 ?"
# runs on 1 March 2027. "0 0 0 31 4 ?", a day that never comes, runs each 1 May. Expected were 31 May, 31 March, 29
# February 2028 and no run: adhocore/gronx 1.20.4 answers the first three so. A report for the month's last day runs
# twice in a month.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/runs 2>log
go get github.com/reugn/go-quartz@v0.15.2 github.com/adhocore/gronx@v1.20.4 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"fmt"
	"time"

	"github.com/adhocore/gronx"
	"github.com/reugn/go-quartz/quartz"
)

func main() {
	ask := func(days string, year int, month time.Month, day int, compare bool) {
		now := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		fmt.Printf("%s after %s:", days, now.Format(time.DateOnly))
		trigger, err := quartz.NewCronTriggerWithLoc("0 0 0 "+days+" ?", time.UTC)
		if err != nil {
			panic(err)
		}
		next := now.UnixNano()
		for range 2 {
			if next, err = trigger.NextFireTime(next); err != nil {
				panic(err)
			}
			fmt.Print(" ", time.Unix(0, next).UTC().Format(time.DateOnly))
		}
		if compare {
			next, err := gronx.NextTickAfter("0 0 "+days+" *", now, false)
			if err != nil {
				panic(err)
			}
			fmt.Print(", gronx ", next.Format(time.DateOnly))
		}
		fmt.Println()
	}
	ask("31 *", 2026, time.April, 2, true)
	ask("31 *", 2026, time.February, 1, true)
	ask("29 2", 2026, time.November, 1, true)
	ask("31 4", 2026, time.November, 1, false)
}
PROGRAM
go build -o runs . 2>>log
answers=$(./runs)
echo "go-quartz 0.15.2, gronx 1.20.4"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
31 * after 2026-04-02: 2026-05-01 2026-05-31, gronx 2026-05-31
31 * after 2026-02-01: 2026-03-03 2026-03-31, gronx 2026-03-31
29 2 after 2026-11-01: 2027-03-01 2028-02-29, gronx 2028-02-29
31 4 after 2026-11-01: 2027-05-01 2028-05-01
ANSWER
