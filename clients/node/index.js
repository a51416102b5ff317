// Workers and producers of a claimq queue, through the socket of its sidecar.
'use strict'

const { Worker } = require('./worker')
const { NewItem } = require('./new_item')
const errors = require('./errors')

/** Connects to the sidecar. `socket`: its path, by default $CLAIMQ_SOCKET, else /run/claimq/claimq.sock. `within`: seconds
 * that the first request waits for a sidecar that starts later. `patience`: seconds for which requests are repeated
 * while the sidecar or its store is away. `log`: gets what a person should know, as text. */
const connect = (options) => new Worker(options)

module.exports = { connect, Worker, NewItem, ...errors }
