// Processes the jobs that `claimq export` wrote, with BullMQ's own worker, and prints them. Usage: node bullmq_read.mjs HOST:PORT
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/");
const { Queue, Worker } = require("bullmq");
const [host, port] = process.argv[2].split(":");
const options = { connection: { host, port: Number(port) }, skipVersionCheck: true };

const mails = new Queue("mails", options);
for (const job of await mails.getDelayed()) console.log("delayed", job.id, job.timestamp + job.delay);
const worker = new Worker("mails", async (job) => console.log("processed", job.id, job.name, job.data), options);
await new Promise((resolve) => worker.on("drained", resolve));
await worker.close();
console.log("the next id is", (await mails.add("send", {})).id, await mails.getJobCounts());
await mails.close();
