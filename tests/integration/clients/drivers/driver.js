// Does what the header "do" of each item says, and reports it in lines of JSON; see driver.py.
'use strict'

const { readFile } = require('node:fs/promises')
const claimq = require('claimq')

const options = JSON.parse(process.env.OPTIONS ?? '{}')
const report = (event) => process.stdout.write(`${JSON.stringify(event)}\n`)
const worker = claimq.connect(options)
const nameOf = ({ name, message }) => ({ error: name, message })

const ACTIONS = {
  raise: () => { throw new TypeError('cannot') },
  'raise-nothing': () => { throw undefined },
  json: (item) => item.json(),
  text: (item) => item.text,
  'raise-fail': () => { throw new claimq.Fail('why', { permanent: true }) },
  'raise-fail-delay': () => { throw new claimq.Fail('why', { delay: 60 }) },
  'raise-requeue': () => { throw new claimq.Requeue({ delay: 60 }) },
  'raise-later': () => { throw new claimq.Later(60) },
  'raise-close': () => { throw new claimq.Later(60, { close: 'queue' }) },
  done: (item) => item.done(),
  fail: (item) => item.fail('no'),
  'fail-permanent': (item) => item.fail(new RangeError('broken'), { permanent: true }),
  'fail-delay': (item) => item.fail('no', { delay: 60 }),
  requeue: (item) => item.requeue(),
  'requeue-delay': (item) => item.requeue({ delay: 60 }),
  later: (item) => item.later(60),
  unclaim: (item) => item.unclaim(),
  renew: (item) => item.renew(),
  'done-twice': async (item) => { await item.done(); return await item.done() },
  follow: (item) => item.done({ enqueue: ['next', new claimq.NewItem({ n: 1 }, { id: 'own', delay: 60 })] }),
  'follow-badly': (item) => item.done({ enqueue: [new claimq.NewItem('b', { id: '\n' })] }),
  exit: () => process.exit(3)
}

async function work(item) {
  const { id, payload, headers, client, priority, cost, crashCount: crashes, postponedCount: postponed } = item
  report({ begin: id, payload: payload.toString('base64'), headers, client, priority, cost, crashes, postponed })
  if (headers.pipe) await readFile(headers.pipe)
  const result = await ACTIONS[headers.do]?.(item)
  if (result?.verdict) report({ verdict: id, is: result.verdict, delay: result.delay ?? null, lease: Boolean(result.leaseUntil) })
}

async function produce() {
  const { ids, length } = await worker.enqueueMany([Buffer.from([255]), 't', { a: 1 }, new claimq.NewItem([1], { id: 'own', client: 'ann', delay: 60, headers: { a: '1' }, priority: 'high' })])
  report({ ids: ids.length, length, last: ids[3] })
  const { id, isDuplicate } = await worker.enqueue([1], { id: 'own' })
  report({ id, duplicate: isDuplicate })
  for (const attempt of [() => worker.enqueue(3), () => worker.enqueue('a', { id: '\n' }), () => worker.enqueue('x'.repeat(2_000_000))]) {
    try { await attempt() } catch (error) { report(nameOf(error)) }
  }
}

async function main() {
  if (options.produce) return await produce()
  for await (const item of worker.items({ window: options.window })) {
    if (item.headers.do === 'forget') continue
    if (item.headers.do === 'leave') throw new Error('the program ends')
    const end = item.run(work)
    if (options.sequential) await end
    end.then((outcome) => report({ end: item.id, is: outcome?.verdict }), () => {})
  }
}

main().then(() => report({ over: worker.draining }), (error) => {
  report(nameOf(error))
  process.exit(1)
})
