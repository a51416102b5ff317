// The stream of a worker: it delivers items, and its connection shows the sidecar that this process lives.
'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const { pauses } = require('./calls')
const { Refused, SidecarUnavailable } = require('./errors')

const SILENCE_MS = 60_000 // without a line after which a stream is broken
const STEADY_MS = 1000 // an older stream is followed by another at once
const GIVE_BACK_MS = 5000 // afterwards items go back when their leases end
const MOST_TOKENS = 1000

/** One stream after another. When one breaks, the next takes over the claims of `worker.tokens()`. */
class Stream {
  #calls
  #worker
  #window
  #opened = Promise.resolve(null) // the last one, null if it could not be opened
  #response = null
  #closing = new AbortController()
  #isEnding = false // deliver nothing more

  constructor(calls, worker, window) {
    this.#calls = calls
    this.#worker = worker
    this.#window = window
  }

  /** Reads until `close`. Throws Refused, and the reason when none can be opened for as long as calls are repeated. */
  async read() {
    let [giveUp, attempts] = [performance.now() + this.#calls.tryFor, pauses()]
    while (!this.#closing.signal.aborted) {
      const began = performance.now()
      let isOpen = false
      try {
        const { lines } = await this.#open()
        isOpen = true
        for await (const line of lines) this.#worker.note(line)
      } catch (error) {
        if (error instanceof Refused || (!isOpen && performance.now() > giveUp)) throw error
      }
      if (this.#closing.signal.aborted) return
      if (isOpen) {
        if (!this.#isEnding) this.#worker.log('the stream of the sidecar has ended; opening another')
        giveUp = performance.now() + this.#calls.patience
        if (performance.now() - began > STEADY_MS) attempts = pauses()
      }
      await sleep(attempts.next().value, null, { signal: this.#closing.signal }).catch(() => {})
    }
  }

  /** Opens one and reads its first line. While the worker stops, it is a session, which delivers nothing. */
  #open() {
    const delivers = !this.#isEnding
    const opened = this.#first(delivers)
    this.#opened = opened.catch(() => null)
    return opened
  }

  async #first(delivers) {
    const body = { tokens: this.#worker.tokens().slice(-MOST_TOKENS) }
    if (delivers) Object.assign(body, { window: this.#window, encoding: 'text' })
    const path = delivers ? '/v1/stream' : '/v1/session'
    const response = await this.#calls.post(path, body, { isShared: false, silence: SILENCE_MS })
    if (response.statusCode !== 200) await this.#calls.read(response) // throws
    this.#response = response
    if (this.#closing.signal.aborted) response.destroy()
    const lines = this.#linesOf(response)
    const { value: first } = await lines.next()
    if (!first) throw new SidecarUnavailable(`the sidecar on ${this.#calls.path} ended a stream at once`)
    this.#worker.note(first)
    return { lines, session: first.session, delivers }
  }

  async * #linesOf(response) {
    let rest = ''
    response.setEncoding('utf8')
    try {
      for await (const part of response) {
        const lines = (rest + part).split('\n')
        rest = lines.pop()
        for (const line of lines) yield JSON.parse(line)
      }
    } catch (error) {
      throw this.#calls.unavailable(error)
    }
  }

  /** Ends the delivery, and gives back what was delivered but not begun, also by a stream that is being opened. */
  async giveBack() {
    this.#isEnding = true
    const opened = await this.#opened
    const limit = { tryFor: this.#worker.draining ? 0 : GIVE_BACK_MS } // a sidecar that drains gives back the rest itself
    let tokens = this.#worker.tokens()
    try {
      if (opened?.delivers) {
        const { answer } = await this.#calls.ask('/v1/window', { session: opened.session, window: 0 }, limit)
        tokens = answer.tokens // also of items that were not read yet
      }
    } catch (error) {
      if (!this.#worker.draining) this.#worker.log(`the sidecar did not list what was not begun: ${error.message}`)
    }
    tokens = this.#worker.forget(tokens)
    if (!tokens.length) return
    await this.#calls.ask('/v1/unclaim', { tokens }, limit).catch((error) => {
      this.#worker.log(`items that were not begun go back when their leases end: ${error.message}`)
    })
  }

  close() {
    this.#closing.abort()
    this.#response?.destroy()
  }
}

module.exports = { Stream }
