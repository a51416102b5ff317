// The worker of by_hand.js, with the client.
'use strict'

const claimq = require('claimq')

async function main() {
  for await (const item of claimq.connect().items()) item.run(() => item.text)
}

main()
