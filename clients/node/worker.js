// A connection to the sidecar, and the loop over the items that it delivers.
'use strict'

const { setImmediate } = require('node:timers/promises')
const { Calls } = require('./calls')
const { ItemNotSettled, Refused, SidecarUnavailable } = require('./errors')
const { Item } = require('./item')
const { NewItem } = require('./new_item')
const { Stream } = require('./stream')

const MOST = 1000 // verdicts or items in one request
const REQUEST_LENGTH = 4 * 1024 * 1024 // characters of the items of one request, unless one alone has more
const SIGNALS = ['SIGTERM', 'SIGINT']
const FORGOTTEN = 'the loop over items() went on before this item had a verdict; write item.run(...) around the work'

class Worker {
  #calls
  #stream = null
  #held = new Map() // from the token to the item: those that were delivered and have no outcome
  #waiting = [] // of these, the ones that the loop has not begun
  #verdicts = [] // for the next request
  #isSending = false
  #isStopping = false
  #leaving = null // the promise of the end of giveBack
  #hasLeft = false
  #failure = null
  #wake = () => {}

  constructor({ log = console.error, ...options } = {}) {
    this.#calls = new Calls(options)
    this.log = log
    this.draining = false // whether the sidecar gives no more items
  }

  /** Items, until a drain, a signal or `stop()`; those in progress are ended first. `window`: the most items without a
   * verdict, by default the concurrency of the sidecar. With `settleElsewhere` the loop does not check that each item has
   * a verdict or `run` when it asks for the next one. */
  async * items({ window, handleSignals = true, settleElsewhere = false } = {}) {
    if (this.#stream) throw new Error('a worker has one loop over items(); begin several items in it with item.run(...)')
    this.#stream = new Stream(this.#calls, this, window)
    this.#stream.read().catch((error) => this.fail(error))
    const unhook = handleSignals ? this.#stopOnSignals() : () => {}
    try {
      for (let item = await this.#next(); item; item = await this.#next()) {
        yield item
        if (!(settleElsewhere || item.isRunning || item.isEnding || item.outcome)) await this.#refuse(item)
      }
      await this.#leave()
      while (this.#held.size && !this.#failure) await this.#change()
      if (this.#failure) throw this.#failure
    } finally {
      unhook()
      await this.#leave()
    }
  }

  /** Ends the loop; items in progress are ended first. */
  stop() {
    this.#isStopping = true
    this.#wake()
    this.#leave()
  }

  /** Adds an item. Resolves with its `id`, the `length` of the queue, and `isDuplicate`. */
  async enqueue(payload, options) {
    const { ids, length, duplicates } = await this.enqueueMany([new NewItem(payload, options)])
    return { id: ids[0], length, isDuplicate: duplicates.length > 0 }
  }

  /** Adds payloads or NewItem in order. After SidecarUnavailable and StoreUnavailable they may be stored: enqueue again
   * only those with ids of your own. */
  async enqueueMany(items) {
    const result = { ids: [], length: 0, duplicates: [] }
    const bodies = Array.from(items, (item) => NewItem.of(item).body)
    const isRepeatable = bodies.every(({ id }) => id != null)
    for (let start = 0, end; start < bodies.length; start = end) {
      let size = JSON.stringify(bodies[start]).length
      for (end = start + 1; end < bodies.length && end - start < MOST; end++) {
        if ((size += JSON.stringify(bodies[end]).length) > REQUEST_LENGTH) break
      }
      const { answer } = await this.#calls.ask('/v1/enqueue', { items: bodies.slice(start, end) }, { isRepeatable })
      result.ids.push(...answer.ids)
      result.duplicates.push(...answer.duplicates)
      result.length = answer.length
    }
    return result
  }

  /** Gives back what is in progress, uncounted, and closes all connections. */
  async close() {
    this.stop()
    await this.#leave()
    const rest = [...this.#held.values()].filter((item) => !item.isEnding)
    await Promise.allSettled(rest.map((item) => item.unclaim()))
    this.#stream?.close()
    this.#calls.close()
  }

  [Symbol.asyncDispose]() { return this.close() }

  async #next() {
    for (;;) {
      if (this.#failure) throw this.#failure
      if (this.#isStopping) return null
      const item = this.#waiting.shift()
      if (item) {
        item.isBegun = true
        return item
      }
      await this.#change()
    }
  }

  #change() { return new Promise((resolve) => { this.#wake = resolve }) }

  async #refuse(item) {
    this.stop() // or the item is delivered again
    await item.fail(FORGOTTEN)
    throw new ItemNotSettled(`the loop over items() asked for the next item before item ${item.id} had a verdict, so it ` +
      'was failed and goes back. Write `item.run(work)` around the work, or end each item with `await item.done()` or ' +
      '`await item.fail(...)` before the next one. If the items are ended elsewhere, use items({ settleElsewhere: true })')
  }

  /** Takes nothing more, and gives back what was not begun. */
  async #leave() {
    this.#isStopping = true
    if (!(this.#failure instanceof SidecarUnavailable)) await (this.#leaving ??= this.#stream?.giveBack())
    this.#hasLeft = true
    this.#closeIfOver()
  }

  /** A stream that closes takes the claims with it. */
  #closeIfOver() {
    if (this.#hasLeft && !this.#held.size) this.#stream?.close()
  }

  #stopOnSignals() {
    const unhook = () => SIGNALS.forEach((signal) => process.off(signal, stop))
    const stop = () => {
      unhook() // a second one has its usual effect
      this.stop()
    }
    SIGNALS.forEach((signal) => process.on(signal, stop))
    return unhook
  }

  // For the stream.

  /** The tokens of all claims. */
  tokens() { return [...this.#held.keys()] }

  /** Notes a line of the stream. */
  note({ claims = [], lost = [], draining }) {
    for (const token of lost) this.#noteLost(token)
    if (draining) {
      this.draining = true
      this.stop()
    }
    if (this.#isStopping) return // what it delivers now is given back
    for (const claim of claims) {
      const item = new Item(this, claim)
      this.#held.set(item.token, item)
      this.#waiting.push(item)
    }
    if (claims.length) this.#wake()
  }

  #noteLost(token) {
    const item = this.#held.get(token)
    if (!item || item.isEnding) return // the reply to its verdict decides
    if (item.isBegun) this.log(`item ${item.id} was lost while the sidecar was away; another worker has it or will`)
    this.#waiting = this.#waiting.filter((one) => one !== item)
    this.#end(item, { outcome: 'lost' })
  }

  /** Of these tokens, the ones that were not begun, which the worker holds no longer. */
  forget(tokens) {
    this.#waiting = []
    const rest = tokens.filter((token) => !this.#held.get(token)?.isBegun)
    for (const token of rest) this.#held.delete(token)
    return rest
  }

  // For items.

  /** Ends the loop with an error. */
  fail(error) {
    this.#failure ??= error
    this.#wake()
  }

  /** Sends a verdict. Those that come while a request is in flight share the next one. */
  settle(item, verb, words) {
    item.isEnding = true
    return new Promise((resolve, reject) => {
      this.#verdicts.push({ item, verb, words, resolve, reject })
      if (!this.#isSending) this.#sendAll()
    })
  }

  async renew(item) {
    const { answer } = await this.#calls.ask('/v1/renew', { tokens: [item.token] })
    return outcomeOf(answer.outcomes[0], false)
  }

  async #sendAll() {
    this.#isSending = true
    await setImmediate() // verdicts of this turn of the event loop share the request
    while (this.#verdicts.length) await this.#send(this.#verdicts.splice(0, MOST))
    this.#isSending = false
  }

  async #send(batch) {
    const body = {}
    for (const { item, verb, words } of batch) (body[verb] ??= []).push({ token: item.token, ...words })
    try {
      const { answer, isRepeated } = await this.#calls.ask('/v1/verdicts', body)
      const outcomes = new Map(answer.outcomes.map((one) => [one.token, one]))
      for (const { item, verb, resolve } of batch) {
        resolve(this.#end(item, outcomes.get(item.token), isRepeated))
        if (verb === 'done' && item.outcome.isLost) {
          this.log(`item ${item.id} was lost before it was done: another worker has it or will`)
        }
      }
    } catch (error) {
      if (error instanceof Refused && batch.length > 1) { // nothing was carried out
        for (const one of batch) await this.#send([one])
        return
      }
      for (const { item, reject } of batch) {
        item.isEnding = false
        reject(error)
      }
    }
  }

  #end(item, answer, isRepeated) {
    item.outcome = outcomeOf(answer, isRepeated)
    this.#held.delete(item.token)
    if (this.#isStopping) this.#wake()
    this.#closeIfOver()
    return item.outcome
  }
}

/** What a verdict did: `verdict`, and `isLost` when the result should be discarded. `isRepeated`: an earlier attempt of
 * ours may be the one that had the effect. */
function outcomeOf({ outcome, earlier, id, delay, lease_until: leaseUntil }, isRepeated) {
  const verdict = isRepeated && outcome === 'already_done' && earlier ? earlier : outcome
  return { verdict, id, delay, leaseUntil, isLost: verdict === 'lost' }
}

module.exports = { Worker }
