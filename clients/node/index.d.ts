/** Seconds. */
type Seconds = number
/** What no worker claims from until the delay is over. */
type Closing = 'queue' | 'client' | 'key'

export interface Options {
  /** The path of the socket: $CLAIMQ_SOCKET, else /run/claimq/claimq.sock. */
  socket?: string
  /** How long the first request waits for a sidecar that starts later: 10. */
  within?: Seconds
  /** How long requests are repeated while the sidecar or its store is away: 120. */
  patience?: Seconds
  log?: (text: string) => void
}

export interface NewItemOptions {
  id?: string
  client?: string
  delay?: Seconds
  headers?: Record<string, string>
  expiresIn?: Seconds
  maxRequeues?: number
  priority?: 'high' | 'normal' | 'low'
  key?: string
  cost?: number
}

/** Bytes, a text, or an object or array that is stored as JSON. */
export type Payload = Uint8Array | string | object

export class NewItem {
  constructor(payload: Payload, options?: NewItemOptions)
  static of(item: NewItem | Payload): NewItem
  readonly body: object
}

export interface Enqueued { ids: string[], length: number, duplicates: string[] }

/** What a verdict did. `isLost`: discard the result. */
export interface Outcome { verdict: string, id: string, delay?: Seconds, leaseUntil?: number, isLost: boolean }

/** An item that the program works on. Instants are Unix seconds by the store's clock. */
export interface Item {
  readonly token: string
  readonly id: string
  readonly client: string
  readonly requeueCount: number
  readonly failCount: number
  readonly crashCount: number
  readonly interruptedCount: number
  readonly postponedCount: number
  readonly enqueuedAt: number
  readonly firstEnqueuedAt: number
  readonly claimedAt: number
  readonly leaseUntil: number
  readonly headers: Record<string, string>
  readonly deadline?: number
  readonly maxRequeues?: number
  readonly priority: 'high' | 'normal' | 'low'
  readonly key?: string
  readonly cost: number
  readonly payload: Buffer
  readonly text: string
  readonly outcome: Outcome | null
  json(): any
  run(work: (item: Item) => unknown): Promise<Outcome>
  done(options?: { enqueue?: Iterable<NewItem | Payload> }): Promise<Outcome>
  fail(error: unknown, options?: { permanent?: boolean, delay?: Seconds | null }): Promise<Outcome>
  requeue(options?: { delay?: Seconds | null }): Promise<Outcome>
  later(delay: Seconds, options?: { close?: Closing }): Promise<Outcome>
  unclaim(): Promise<Outcome>
  renew(): Promise<Outcome>
}

export class Worker {
  constructor(options?: Options)
  readonly draining: boolean
  items(options?: { window?: number, handleSignals?: boolean, settleElsewhere?: boolean }): AsyncGenerator<Item, void, void>
  stop(): void
  enqueue(payload: Payload, options?: NewItemOptions): Promise<{ id: string, length: number, isDuplicate: boolean }>
  enqueueMany(items: Iterable<NewItem | Payload>): Promise<Enqueued>
  close(): Promise<void>
}

export function connect(options?: Options): Worker

export class ClaimqError extends Error {}
export class SidecarUnavailable extends ClaimqError {}
export class StoreUnavailable extends ClaimqError {}
export class Refused extends ClaimqError {
  readonly status: number
  readonly kind: string
  readonly detail: string
  readonly errors: { pointer: string, detail: string }[]
}
export class PayloadError extends ClaimqError {}
export class ItemNotSettled extends ClaimqError {}
export class Fail extends ClaimqError {
  constructor(reason: string, options?: { permanent?: boolean, delay?: Seconds | null })
}
export class Requeue extends ClaimqError {
  constructor(options?: { delay?: Seconds | null })
}
export class Later extends ClaimqError {
  constructor(delay: Seconds, options?: { close?: Closing })
}
