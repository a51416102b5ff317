// Adds jobs with BullMQ. Usage: node bullmq_jobs.mjs HOST:PORT, where the package bullmq can be found.
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/");
const { Queue, FlowProducer } = require("bullmq");
const [host, port] = process.argv[2].split(":");
const connection = { host, port: Number(port) };
const quiet = { skipVersionCheck: true };

const mails = new Queue("mails", { connection, ...quiet });
await mails.add("send", { to: "ann@example.com", subject: "Grüße" });
await mails.add("send", { to: "bob@example.com" }, { attempts: 5, backoff: { type: "exponential", delay: 1000 } });
await mails.add("send", { to: "own@example.com" }, { jobId: "order-17" });
await mails.add("send", { to: "later@example.com" }, { delay: 4_000_000_000_000 - Date.now() });
await mails.add("send", { to: "urgent@example.com" }, { priority: 1 });
await mails.add("send", { to: "slow@example.com" }, { priority: 10 });
await mails.add("send", { to: "last@example.com" }, { lifo: true });
await mails.upsertJobScheduler("nightly", { every: 3_600_000 }, { name: "sweep", data: {} });
await mails.close();

const paused = new Queue("paused-mails", { connection, ...quiet });
await paused.pause();
await paused.add("send", { to: "held@example.com" });
await paused.close();

const flows = new FlowProducer({ connection });
await flows.add({
  name: "album", queueName: "albums", data: {},
  children: [{ name: "photo", queueName: "photos", data: { n: 1 } }],
});
await flows.close();
console.log(JSON.stringify({ node: process.versions.node, bullmq: require("bullmq/package.json").version }));
