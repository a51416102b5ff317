// A worker in Node.js without packages. Each item is the path of a file; the result is a line with its SHA-256 and
// the item's id on the standard output.
'use strict'

const crypto = require('crypto')
const fs = require('fs')
const http = require('http')
const { pipeline } = require('stream/promises')
const { setTimeout: sleep } = require('timers/promises')

const socketPath = process.env.CLAIMQ_SOCKET
let stopping = false
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => { stopping = true })

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

/** The first line of a response that goes on. The rest is read and dropped. */
function firstLine(response) {
  return new Promise((resolve, reject) => {
    response.once('data', resolve).on('error', reject).on('end', () => reject(new Error('the session has ended')))
  })
}

/** Opens a session: the sidecar renews what is claimed in it, and gives it back when this process dies. */
async function openSession() {
  for (;;) {
    try {
      const { session, detail } = JSON.parse(await firstLine(await post('/v1/session', {})))
      if (session) return session
      console.error(detail)
    } catch (error) {
      console.error(error.message)
    }
    await sleep(500)
  }
}

async function checksum(path) {
  const hash = crypto.createHash('sha256')
  await pipeline(fs.createReadStream(path), hash)
  return hash.digest('hex')
}

async function handle(item) {
  const tokens = [item.token]
  try {
    if (item.text === undefined) throw new Error('the payload is not text')
    console.log(`${await checksum(item.text)} ${item.id}`)
  } catch (error) {
    await ask('/v1/fail', { tokens, error: error.message })
    return
  }
  await ask('/v1/done', { tokens })
}

async function main() {
  let session = await openSession()
  while (!stopping) {
    const answer = await ask('/v1/claim', { session, wait: 5, encoding: 'text' })
    if (answer.status === 409) session = await openSession() // the sidecar was restarted
    else if (answer.status !== 200) throw new Error(answer.detail)
    else if (answer.draining) return
    else for (const item of answer.claims) await handle(item)
  }
}

main().then(() => process.exit(0), (error) => { console.error(error.message); process.exit(1) })
