// Enqueues each line of the standard input.
'use strict'

const { createHash } = require('node:crypto')
const readline = require('node:readline')
const claimq = require('claimq')

async function main() {
  const items = []
  for await (const text of readline.createInterface({ input: process.stdin })) {
    const id = createHash('sha256').update(text).digest('hex') // makes it harmless to enqueue the same item again
    items.push(new claimq.NewItem(text, { id }))
  }
  await claimq.connect().enqueueMany(items)
}

main()
