#!/usr/bin/env bash
# "1y", a usual lifetime of results and tokens, is 364 days to humanfriendly 10.0 (52 weeks), 365 days to durationpy 0.11
# and pytimeparse2 1.7.1, and 365.25 days to ms 2.1.3 and timestring 7.0.0 (npm). itty-time 2.0.2 (npm) mixes two rules:
# its year is 365.25 days and its month 30, so twelve months are 5.25 days less than a year. Expected was 365 everywhere.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip --quiet install humanfriendly==10.0 durationpy==0.11 pytimeparse2==1.7.1
venv/bin/python - <<'PROGRAM'
import durationpy
import humanfriendly
import pytimeparse2

DAY = 24 * 3600
days = {
    "humanfriendly": humanfriendly.parse_timespan("1y") / DAY,
    "durationpy": durationpy.from_str("1y").total_seconds() / DAY,
    "pytimeparse2": pytimeparse2.parse("1y") / DAY,
}
print("days of a year:", days)
assert days == {"humanfriendly": 364, "durationpy": 365, "pytimeparse2": 365}
PROGRAM
npm install --silent --no-fund --no-audit ms@2.1.3 timestring@7.0.0 itty-time@2.0.2 >log
cat >read.mjs <<'PROGRAM'
import assert from 'node:assert/strict'
import ms from 'ms'
import timestring from 'timestring'
import { ms as itty } from 'itty-time'

const day = 24 * 3600 * 1000
const days = { ms: ms('1y') / day, timestring: timestring('1y', 'ms') / day, 'itty-time': itty('1 year') / day, 'its 12 months': itty('12 months') / day }
console.log('days of a year:', days)
assert.deepEqual(days, { ms: 365.25, timestring: 365.25, 'itty-time': 365.25, 'its 12 months': 360 })
PROGRAM
node read.mjs
