#!/usr/bin/env bash
# cloudevents 10.0.0 (npm): an event that is received and sent on has another time: 2026-11-29T11:00:00.123456+01:00
# goes on as 2026-11-29T10:00:00.123Z, in binary and in structured mode. The time is a string in its interface, but
# passes through Date. Expected was the text that came, or at least its instant, as cloudevents 2.2.0 for Python keeps
# it. Events of one millisecond can no longer be put in order, and a signature or a comparison over the attributes
# fails.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit cloudevents@10.0.0 >npm.log
python3 -m venv venv
venv/bin/pip --quiet install cloudevents==2.2.0
cat >pass.mjs <<'PROGRAM'
import { HTTP } from 'cloudevents';

const time = '2026-11-29T11:00:00.123456+01:00';
const event = { id: '1', source: '/a', type: 'done', specversion: '1.0', time };
const binary = Object.fromEntries(Object.entries(event).map(([name, value]) => [`ce-${name}`, value]));
console.log('node binary', HTTP.binary(HTTP.toEvent({ headers: binary, body: '' })).headers['ce-time']);
const headers = { 'content-type': 'application/cloudevents+json' };
const received = HTTP.toEvent({ headers, body: JSON.stringify(event) });
console.log('node structured', JSON.parse(HTTP.structured(received).body).time);
PROGRAM
cat >pass.py <<'PROGRAM'
import json

from cloudevents.core.bindings import http

event = {"id": "1", "source": "/a", "type": "done", "specversion": "1.0", "time": "2026-11-29T11:00:00.123456+01:00"}
binary = http.HTTPMessage(headers={f"ce-{name}": value for name, value in event.items()}, body=b"")
print("python binary", http.to_binary_event(http.from_http_event(binary)).headers["ce-time"])
headers = {"content-type": "application/cloudevents+json"}
received = http.from_http_event(http.HTTPMessage(headers=headers, body=json.dumps(event).encode()))
print("python structured", json.loads(http.to_structured_event(received).body)["time"])
PROGRAM
answers=$(
  node pass.mjs
  venv/bin/python pass.py
)
echo "cloudevents 10.0.0 for JavaScript, 2.2.0 for Python"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
node binary 2026-11-29T10:00:00.123Z
node structured 2026-11-29T10:00:00.123Z
python binary 2026-11-29T11:00:00.123456+01:00
python structured 2026-11-29T11:00:00.123456+01:00
ANSWER
