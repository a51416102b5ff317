// Errors, named by what the program does next.
'use strict'

class ClaimqError extends Error {
  get name() { return this.constructor.name }
}

/** No sidecar answers on the socket. It is unknown whether the last call took effect. */
class SidecarUnavailable extends ClaimqError {}

/** The sidecar answers, and its store does not, or has no room now. */
class StoreUnavailable extends ClaimqError {}

/** The sidecar refuses the request and would refuse it again. `errors`: `{pointer, detail}` for each field. */
class Refused extends ClaimqError {
  constructor(status, { type = '', detail = 'the sidecar gave no reason', errors = [] }) {
    const kind = type.slice(type.lastIndexOf(':') + 1) || 'unknown'
    super(`${detail} (${status} ${kind})`)
    Object.assign(this, { status, kind, detail, errors })
  }
}

/** The payload is not what the program reads it as. */
class PayloadError extends ClaimqError {}

/** A loop asked for the next item while the last one had no verdict. The program has to change. */
class ItemNotSettled extends ClaimqError {}

/** Thrown in `item.run`: this attempt failed, with a reason of its own. `delay`: seconds until the next attempt. */
class Fail extends ClaimqError {
  constructor(reason, { permanent = false, delay = null } = {}) {
    super(reason)
    Object.assign(this, { permanent, delay })
  }
}

/** Thrown in `item.run`: not now. `delay`: seconds. Counts against the limit. */
class Requeue extends ClaimqError {
  constructor({ delay = null } = {}) {
    super('the item was requeued')
    this.delay = delay
  }
}

/** Thrown in `item.run`: not now, for a reason that is not the item's, such as a service that is away. `delay`: seconds.
 * `close`: 'queue', 'client' or 'key': no worker claims from it until then. */
class Later extends ClaimqError {
  constructor(delay, { close = undefined } = {}) {
    super('the item was postponed')
    Object.assign(this, { delay, close })
  }
}

module.exports = {
  ClaimqError, SidecarUnavailable, StoreUnavailable, Refused, PayloadError, ItemNotSettled, Fail, Requeue, Later
}
