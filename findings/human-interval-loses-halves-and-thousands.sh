#!/usr/bin/env bash
# human-interval 2.0.1 (npm; Agenda and Bree read their intervals by it) takes "one thousand seconds" for one second: it
# drops the word "and" also inside of "thousand". "1,000 seconds" and "one and a half hours" are a second and an hour,
# "half an hour" and "an hour" are 0. Expected was what it does with "twelve hundred seconds" (1,200 s) and "1.5 hours",
# or NaN, its answer to "90" and "1h". A wait that was meant to be half an hour long is none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit human-interval@2.0.1 >npm.log
cat >read.cjs <<'PROGRAM'
const interval = require('human-interval');

for (const text of [
  'twelve hundred seconds', 'one thousand seconds', 'two thousand seconds', '1,000 seconds', '1.5 hours',
  'one and a half hours', 'half an hour', 'an hour', 'hour', '90', '1h',
]) {
  console.log(`${text} = ${interval(text) / 1000} s`);
}
PROGRAM
answers=$(node read.cjs)
echo "human-interval 2.0.1"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
twelve hundred seconds = 1200 s
one thousand seconds = 1 s
two thousand seconds = 2 s
1,000 seconds = 1 s
1.5 hours = 5400 s
one and a half hours = 3600 s
half an hour = 0 s
an hour = 0 s
hour = 3600 s
90 = NaN s
1h = NaN s
ANSWER
