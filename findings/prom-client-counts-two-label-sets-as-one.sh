#!/usr/bin/env bash
# prom-client 15.1.3 (Node.js): two label sets are one series if their values contain commas and colons in the right
# place. A counter that is raised for queue="mail,worker:a", worker="b" and for queue="mail", worker="a,worker:b" shows
# the first alone, with 2. It tells series apart by the text name:value,name:value, without escaping. Expected were two
# series, as prometheus-client 0.26.0 (Python) shows. What one queue did is counted as the work of another, and no error
# says so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit prom-client@15.1.3 >npm.log
python3 -m venv venv
venv/bin/pip --quiet install prometheus-client==0.26.0
cat >count.mjs <<'PROGRAM'
import { Counter, register } from 'prom-client';

const done = new Counter({ name: 'done_total', help: 'Done.', labelNames: ['queue', 'worker'] });
done.inc({ queue: 'mail,worker:a', worker: 'b' });
done.inc({ queue: 'mail', worker: 'a,worker:b' });
console.log((await register.metrics()).trim());
PROGRAM
cat >count.py <<'PROGRAM'
from prometheus_client import CollectorRegistry, Counter, generate_latest

registry = CollectorRegistry()
done = Counter("done", "Done.", ["queue", "worker"], registry=registry)
done.labels(queue="mail,worker:a", worker="b").inc()
done.labels(queue="mail", worker="a,worker:b").inc()
print(generate_latest(registry).decode())
PROGRAM
answers=$(for program in "node count.mjs" "venv/bin/python count.py"; do
  echo "$program"
  $program | grep '^done_total'
done)
echo "prom-client 15.1.3, prometheus-client 0.26.0"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
node count.mjs
done_total{queue="mail,worker:a",worker="b"} 2
venv/bin/python count.py
done_total{queue="mail,worker:a",worker="b"} 1.0
done_total{queue="mail",worker="a,worker:b"} 1.0
ANSWER
