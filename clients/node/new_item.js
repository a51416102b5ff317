// Items to add, as the sidecar reads them.
'use strict'

/** The options that an item keeps, with their names on the wire. */
const KEPT = { headers: 'headers', maxRequeues: 'max_requeues', priority: 'priority', key: 'key', cost: 'cost' }
/** What an item has without these options. */
const UNSET = { deadline: undefined, priority: 'normal', cost: 1 }
const OPTIONS = { id: 'id', client: 'client', delay: 'delay', expiresIn: 'expires_in', ...KEPT }

/** A payload (a Buffer or Uint8Array, a text, or an object or array that is stored as JSON) and its options: `id`,
 * `client`, `delay` and `expiresIn` in seconds, `headers`, `maxRequeues`, `priority`, `key`, `cost`. */
class NewItem {
  constructor(payload, options = {}) {
    const body = bodyOf(payload)
    for (const [name, value] of Object.entries(options)) {
      if (!Object.hasOwn(OPTIONS, name)) {
        throw new TypeError(`an item has no option ${name}; its options are ${Object.keys(OPTIONS).join(', ')}`)
      }
      if (value !== undefined) body[OPTIONS[name]] = value
    }
    this.body = body
  }

  static of(item) { return item instanceof NewItem ? item : new NewItem(item) }
}

function bodyOf(payload) {
  if (typeof payload === 'string') return { text: payload }
  if (payload instanceof Uint8Array) return { payload_base64: Buffer.from(payload).toString('base64') }
  if (typeof payload === 'object' && payload !== null) return { payload }
  throw new TypeError(`a payload is a Buffer, a text, or an object or array (stored as JSON), not ${payload}; ` +
    'put a single number, boolean or null into an array or encode it yourself')
}

module.exports = { KEPT, NewItem, UNSET }
