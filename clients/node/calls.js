// Requests to the sidecar's socket, which are repeated while it or its store is away.
'use strict'

const { existsSync } = require('node:fs')
const http = require('node:http')
const { dirname } = require('node:path')
const { setTimeout: sleep } = require('node:timers/promises')
const { Refused, SidecarUnavailable, StoreUnavailable } = require('./errors')

const ANSWER_MS = 30_000 // how long the sidecar may take to answer
const DEFAULT_SOCKET = '/run/claimq/claimq.sock'
const ADVICE = 'start the sidecar, as `claimq up` does, or set CLAIMQ_SOCKET to the path of its socket'
const NO_SIDECAR = '$CLAIMQ_SOCKET is not set, and there is no directory /run/claimq: no sidecar runs beside this ' +
  'program; `claimq up` starts both from queue.yaml'
const NOT_CONNECTED = {
  ENOENT: (path) => `there is no socket at ${path}; ${ADVICE}`,
  ECONNREFUSED: (path) => `no process answers on the socket ${path} (its sidecar has ended); ${ADVICE}`,
  EACCES: (path) => `this user may not connect to ${path}; run the app in the group of the sidecar (fsGroup)`
}

/** Pauses between attempts in milliseconds: they double from 20 to 1,000, and chance shortens each by up to a half. */
function * pauses() {
  for (let pause = 20; ; pause = Math.min(pause * 2, 1000)) yield pause * (1 - Math.random() / 2)
}

class Calls {
  #agent = new http.Agent({ keepAlive: true })

  constructor({ socket = process.env.CLAIMQ_SOCKET, within = 10, patience = 120 }) {
    this.path = socket || DEFAULT_SOCKET
    this.isAlone = !socket && !existsSync(dirname(DEFAULT_SOCKET)) // whether no sidecar will start
    this.within = this.isAlone ? 0 : within * 1000
    this.patience = patience * 1000
    this.isConnected = false // whether the sidecar has answered once
  }

  /** Milliseconds for which a request is repeated. */
  get tryFor() { return this.isConnected ? this.patience : this.within }

  /** Sends a request. Resolves with the response, whose body is not read yet. `silence`: milliseconds without a byte
   * after which the connection is broken. Without `isShared` the connection is new, and of this request alone. */
  post(path, body, { isShared, silence = ANSWER_MS }) {
    return new Promise((resolve, reject) => {
      const agent = isShared ? this.#agent : false
      const headers = { 'content-type': 'application/json' }
      const request = http.request({ socketPath: this.path, path, method: 'POST', agent, headers }, (response) => {
        this.isConnected = true
        resolve(response)
      })
      request.setTimeout(silence, () => request.destroy(new Error('it did not answer in time')))
      request.on('error', (error) => reject(this.unavailable(error))).end(JSON.stringify(body))
    })
  }

  /** The answer to a request, and whether an earlier attempt may have had its effect. An attempt that fails is repeated
   * for `tryFor` milliseconds; one that may have arrived only if that is harmless (`isRepeatable`). */
  async ask(path, body, { isRepeatable = true, tryFor = this.tryFor } = {}) {
    const giveUp = performance.now() + tryFor
    let isRepeated = false
    for (const pause of pauses()) {
      try {
        return { answer: await this.read(await this.post(path, body, { isShared: isRepeatable })), isRepeated }
      } catch (error) {
        const mayHaveArrived = !(error.cause?.code in NOT_CONNECTED)
        const left = giveUp - performance.now()
        if (error instanceof Refused || (mayHaveArrived && !isRepeatable) || left <= 0) throw error
        isRepeated ||= mayHaveArrived
        await sleep(Math.min(pause, left))
      }
    }
  }

  /** The JSON of a response. Throws the error that a status other than 200 means. */
  async read(response) {
    let answer
    try {
      answer = JSON.parse(Buffer.concat(await response.toArray()).toString())
    } catch (error) {
      throw this.unavailable(error)
    }
    const { statusCode: status } = response
    if (status === 200) return answer
    throw status === 429 || status === 503 ? new StoreUnavailable(answer.detail) : new Refused(status, answer)
  }

  unavailable(error) {
    const broke = () => `the sidecar on ${this.path} broke the connection (${error.message}); it may have restarted, ` +
      'and it is unknown whether the call took effect'
    const why = this.isAlone ? () => NO_SIDECAR : NOT_CONNECTED[error.code] ?? broke
    return new SidecarUnavailable(why(this.path), { cause: error })
  }

  close() { this.#agent.destroy() }
}

module.exports = { Calls, pauses }
