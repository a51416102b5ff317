// Prints when BullMQ starts each job under its limiter, as JSON: bullmq_limiter.mjs DIR SOCKET JOBS CONCURRENCY MAX MS.
// DIR has node_modules with bullmq and ioredis; MAX 0 is no limiter; a job takes MS milliseconds.
import { createRequire } from 'node:module'

const [dir, path, ...numbers] = process.argv.slice(2)
const [jobs, concurrency, max, takes] = numbers.map(Number)
const { Queue, Worker } = createRequire(`${dir}/`)('bullmq')
const connection = { path, maxRetriesPerRequest: null }
const queue = new Queue('limited', { connection })
await queue.addBulk(Array.from({ length: jobs }, (_, n) => ({ name: 'job', data: { n } })))
const starts = []
await new Promise((done) => {
  let ended = 0
  const limiter = max ? { limiter: { max, duration: 1000 } } : {}
  const worker = new Worker('limited', async () => {
    starts.push(Date.now() / 1000)
    await new Promise((next) => setTimeout(next, takes))
  }, { connection, concurrency, ...limiter })
  worker.on('completed', () => { ended += 1; if (ended === jobs) done() })
})
console.log(JSON.stringify([...starts, Date.now() / 1000]))
process.exit(0)
