// A worker in Node.js without a client, as careful as one: it ends each item at once. It works on as many items at once
// as the sidecar's concurrency allows.
'use strict'

const http = require('http')
const { setTimeout: sleep } = require('timers/promises')

const SILENCE = 60_000 // milliseconds without a line after which a stream is broken
const socketPath = process.env.CLAIMQ_SOCKET
const working = new Map() // the items in progress: from the token to the promise of the end
let opened // the promise of the last stream
let stopping = false // begin no more items
let stop
const asked = new Promise((resolve) => { stop = () => { stopping = true; resolve() } })
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, stop)

/** Sends a request to the sidecar. Resolves with the response, whose body is not read yet. */
function post(path, body) {
  return new Promise((resolve, reject) => {
    const request = http.request({ socketPath, path, method: 'POST' }, resolve)
    request.on('error', reject).end(JSON.stringify(body))
  })
}

/** Sends a request until it is answered with 200 or 4xx. To repeat one is harmless. */
async function ask(path, body) {
  for (;;) {
    try {
      const response = await post(path, body)
      const answer = JSON.parse(Buffer.concat(await response.toArray()).toString())
      if (response.statusCode < 500 && response.statusCode !== 429) return { status: response.statusCode, ...answer }
      console.error(answer.detail)
    } catch (error) {
      console.error(error.message)
    }
    await sleep(500)
  }
}

const verdicts = { done: [], fail: [] } // for the next request
let inFlight = Promise.resolve()
let next

/** Sends a verdict. Those that come while a request is in flight share the next one. */
function settle(verb, verdict) {
  verdicts[verb].push(verdict)
  next ??= inFlight.then(() => {
    next = undefined
    inFlight = ask('/v1/verdicts', { done: verdicts.done.splice(0), fail: verdicts.fail.splice(0) })
      .then((answer) => { if (answer.status !== 200) throw new Error(answer.detail) })
    return inFlight
  })
  return next
}

async function handle({ token, text }) {
  try {
    if (text === undefined) throw new Error('the payload is not text')
  } catch (error) {
    await settle('fail', { token, error: error.message })
    return
  }
  await settle('done', { token })
}

/** The lines of a response as objects. */
async function * linesOf(response) {
  let rest = ''
  response.setEncoding('utf8').setTimeout(SILENCE, () => response.destroy(new Error('the stream is silent')))
  for await (const part of response) {
    const lines = (rest + part).split('\n')
    rest = lines.pop()
    yield * lines.map((line) => JSON.parse(line))
  }
}

/** Opens a stream, which takes over the items in progress, and reads its first line. */
async function open() {
  const lines = linesOf(await post('/v1/stream', { tokens: [...working.keys()], encoding: 'text' }))
  const { value: first } = await lines.next()
  if (!first?.session) throw new Error(first?.detail ?? 'the stream ended') // a refusal
  if (first.draining) stop()
  return { session: first.session, lines }
}

/** Begins each item of a stream, and opens another when it breaks. */
async function readItems() {
  while (!stopping) {
    try {
      opened = open()
      for await (const line of (await opened).lines) {
        for (const item of stopping ? [] : line.claims ?? []) {
          const end = handle(item).finally(() => working.delete(item.token))
          end.catch(fail)
          working.set(item.token, end)
        }
        if (line.draining) stop()
      }
    } catch (error) {
      console.error(error.message)
    }
    await sleep(500)
  }
}

/** Gives back what was delivered and not begun, also by a stream that is being opened. */
async function giveBack() {
  const { session } = await opened.catch(() => ({}))
  if (!session) return
  const { tokens = [] } = await ask('/v1/window', { session, window: 0 })
  const rest = tokens.filter((token) => !working.has(token))
  if (rest.length) await ask('/v1/unclaim', { tokens: rest })
}

async function main() {
  readItems()
  await asked
  await giveBack()
  await Promise.all(working.values())
}

function fail(error) {
  console.error(error.message)
  process.exit(1)
}

main().then(() => process.exit(0), fail)
