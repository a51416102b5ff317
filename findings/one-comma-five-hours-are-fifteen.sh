#!/usr/bin/env bash
# parse-duration 2.1.9 and timestring 7.0.0 (npm): "1,5h", as half of Europe writes an hour and a half, is 15 hours. They
# drop each comma as if it stood between thousands, also where no three digits follow it. Expected was an hour and a
# half, or a refusal: ms 2.1.3 gives undefined and itty-time 2.0.2 NaN. humanfriendly 10.0 (Python) refuses it too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit parse-duration@2.1.9 timestring@7.0.0 ms@2.1.3 itty-time@2.0.2 >log
cat >read.mjs <<'PROGRAM'
import assert from 'node:assert/strict'
import ms from 'ms'
import parse from 'parse-duration'
import timestring from 'timestring'
import { seconds } from 'itty-time'

const hours = (text) => ({ 'parse-duration': parse(text, 'h'), timestring: timestring(text, 'h') })
console.log('hours of "1.5h":', hours('1.5h'), 'of "1,5h":', hours('1,5h'), 'ms:', ms('1,5h'), 'itty-time:', seconds('1,5 hours'))
assert.deepEqual(hours('1.5h'), { 'parse-duration': 1.5, timestring: 1.5 })
assert.deepEqual(hours('1,5h'), { 'parse-duration': 15, timestring: 15 })
assert.equal(ms('1,5h'), undefined)
assert.ok(Number.isNaN(seconds('1,5 hours')))
PROGRAM
node read.mjs
python3 -m venv venv
venv/bin/pip --quiet install humanfriendly==10.0
venv/bin/python - <<'PROGRAM'
import humanfriendly

try:
    humanfriendly.parse_timespan("1,5h")
except humanfriendly.InvalidTimespan:
    print("humanfriendly: refused")
else:
    raise SystemExit("humanfriendly reads it")
PROGRAM
