// A producer in Node.js without packages: enqueues each line of the standard input.
'use strict'

const crypto = require('crypto')
const http = require('http')
const readline = require('readline')

const BATCH = 100

function enqueue(items) {
  return new Promise((resolve, reject) => {
    const options = { socketPath: process.env.CLAIMQ_SOCKET, path: '/v1/enqueue', method: 'POST' }
    const request = http.request(options, async (response) => {
      const answer = JSON.parse(Buffer.concat(await response.toArray()).toString())
      if (response.statusCode === 200) resolve(answer)
      else reject(new Error(answer.detail))
    })
    request.on('error', reject).end(JSON.stringify({ items }))
  })
}

async function main() {
  let items = []
  for await (const text of readline.createInterface({ input: process.stdin })) {
    const id = crypto.createHash('sha256').update(text).digest('hex')
    items.push({ text, id }) // an id makes it harmless to enqueue the same item again
    if (items.length === BATCH) {
      await enqueue(items)
      items = []
    }
  }
  if (items.length > 0) await enqueue(items)
}

main().catch((error) => { console.error(error.message); process.exit(1) })
