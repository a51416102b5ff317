// Each item is the path of a file; the result is a line with its SHA-256 and the item's id on the standard output.
'use strict'

const { createHash } = require('node:crypto')
const { readFile } = require('node:fs/promises')
const claimq = require('claimq')

async function main() {
  for await (const item of claimq.connect().items()) {
    item.run(async () => {
      const content = await readFile(item.text)
      console.log(`${createHash('sha256').update(content).digest('hex')} ${item.id}`)
    })
  }
}

main()
