// An item that the program works on.
'use strict'

const { Fail, Later, PayloadError, Requeue, SidecarUnavailable } = require('./errors')
const { KEPT, NewItem, UNSET } = require('./new_item')

const LONGEST_ERROR = 1000
const LONGEST_DETAIL = 2000
const FIELDS = ['id', 'client', 'requeue_count', 'fail_count', 'crash_count', 'interrupted_count', 'enqueued_at',
  'first_enqueued_at', 'claimed_at', 'lease_until', ...Object.values(KEPT), ...Object.keys(UNSET)]

/** An item that the program works on. `id`, `client`, `headers`, `requeueCount` and the other fields of a claim; instants
 * are Unix seconds by the store's clock. `outcome`: what its verdict did; null while there is none. */
class Item {
  #worker
  #claim

  constructor(worker, claim) {
    this.#worker = worker
    this.#claim = claim
    this.token = claim.token
    this.outcome = null
    this.isBegun = false // whether the program has it
    this.isEnding = false // whether its verdict is under way or known
    this.isRunning = false // whether run() gives it a verdict
  }

  static field(claim, name) { return claim.#claim[name] }

  get headers() { return this.#claim.headers ?? {} }
  get postponedCount() { return this.#claim.postponed_count ?? 0 }

  /** The payload, byte for byte. */
  get payload() {
    const { text, payload_base64: base64 } = this.#claim
    return text === undefined ? Buffer.from(base64, 'base64') : Buffer.from(text)
  }

  /** The payload as UTF-8 text. Throws PayloadError if it is not. */
  get text() {
    if (this.#claim.text === undefined) throw new PayloadError(`the payload of item ${this.id} is not UTF-8`)
    return this.#claim.text
  }

  /** The payload as the JSON value that it holds. Throws PayloadError if it does not. */
  json() {
    try {
      return JSON.parse(this.text)
    } catch (error) {
      throw error instanceof PayloadError ? error : new PayloadError(`the payload of item ${this.id} is not JSON: ${error.message}`)
    }
  }

  /** Does the work: the item is done when `work(item)` ends, and fails with what it throws, unless it has got another
   * verdict there. Without `await` the loop begins its next items in the meantime. Rejects only with an error of
   * the verdict, which also ends the loop. */
  run(work) {
    this.isRunning = true
    const end = this.#run(work)
    end.catch((error) => this.#worker.fail(error))
    return end
  }

  async #run(work) {
    try {
      await work(this)
    } catch (error) {
      if (error instanceof SidecarUnavailable) throw error
      if (error instanceof Requeue) return await this.requeue(error)
      if (error instanceof Later) return await this.later(error.delay, error)
      if (!(error instanceof Fail)) this.#worker.log(`item ${this.id} failed: ${error?.stack ?? error}`)
      return await this.fail(error)
    }
    return this.isEnding ? this.outcome : await this.done()
  }

  /** The work is finished. `enqueue`: payloads or NewItem that follow from it, added in the same atomic step. */
  async done({ enqueue = [] } = {}) {
    const items = Array.from(enqueue, (item) => NewItem.of(item).body)
    return await this.#worker.settle(this, 'done', items.length ? { enqueue: items } : {})
  }

  /** This attempt failed: requeued by the queue's policy, or (at its limit, or `permanent`) failed. `error`: a text or an
   * error. `delay`: seconds until the next attempt instead of the policy's. */
  async fail(error, { permanent = error?.permanent ?? false, delay = error?.delay ?? null } = {}) {
    const isError = error instanceof Error && !(error instanceof Fail)
    const text = isError ? `${error.name}: ${error.message}` : String(error?.message ?? error)
    const words = { error: text.toWellFormed().slice(0, LONGEST_ERROR).toWellFormed() || 'no reason given', permanent, delay }
    if (isError && error.stack) words.detail = error.stack.slice(-LONGEST_DETAIL).toWellFormed()
    return await this.#worker.settle(this, 'fail', words)
  }

  /** Not now: to the tail, or after `delay` seconds. Counts against the limit. */
  async requeue({ delay = null } = {}) { return await this.#worker.settle(this, 'requeue', { delay }) }

  /** Not now: after `delay` seconds, counting neither an attempt nor a failure. */
  async later(delay, { close } = {}) { return await this.#worker.settle(this, 'later', { delay, close }) }

  /** The work never began: back to the head, uncounted. */
  async unclaim() { return await this.#worker.settle(this, 'unclaim', {}) }

  /** Extends the lease; seldom needed, since the sidecar renews it while this process lives. */
  async renew() { return await this.#worker.renew(this) }
}

for (const name of FIELDS) {
  const camel = name.replace(/_(.)/g, (_, letter) => letter.toUpperCase())
  if (Object.hasOwn(Item.prototype, camel)) continue
  Object.defineProperty(Item.prototype, camel, {
    get() {
      const value = Item.field(this, name)
      return value === undefined ? UNSET[name] : value
    },
  })
}

module.exports = { Item }
