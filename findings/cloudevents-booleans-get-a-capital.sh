#!/usr/bin/env bash
# cloudevents 2.2.0 for Python writes the extension attribute retry=False as "ce-retry: False" in binary mode.
# CloudEvents defines "true" and "false", which the JavaScript library (cloudevents 10.0.0) writes. Expected was "false".
# A consumer or a broker filter that compares with "false" does not match, and the reader of either library returns a
# string that counts as true: retry=False is retried. In structured mode the value stays a boolean.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install cloudevents==2.2.0
cd "$folder"
npm install --silent --no-fund --no-audit cloudevents@10.0.0 >log
cat >python.py <<'PROGRAM'
from cloudevents.core.bindings import http
from cloudevents.core.v1.event import CloudEvent

event = CloudEvent(
    attributes={"id": "1", "source": "orders", "type": "order", "specversion": "1.0", "retry": False, "try": 2}
)
message = http.to_binary_event(event)
back = http.from_http_event(message).get_extension("retry")
structured = http.from_http_event(http.to_structured_event(event)).get_extension("retry")
print(message.headers["ce-retry"], message.headers["ce-try"], repr(back), bool(back), repr(structured))
PROGRAM
cat >javascript.mjs <<'PROGRAM'
import { CloudEvent, HTTP } from 'cloudevents';

const event = new CloudEvent({ source: 'orders', type: 'order', retry: false });
const { headers } = HTTP.binary(event);
const python = { 'ce-id': '1', 'ce-source': 'orders', 'ce-type': 'order', 'ce-specversion': '1.0', 'ce-retry': 'False' };
const read = HTTP.toEvent({ headers: python, body: '' }).retry;
console.log(String(headers['ce-retry']), JSON.stringify(read), Boolean(read));
PROGRAM
python=$("$folder/venv/bin/python" python.py)
javascript=$(node javascript.mjs)
echo "Python 2.2.0, retry=False: header, header of try=2, read back, as a condition, in structured mode: $python"
echo "JavaScript 10.0.0, retry=false: header, what it reads of Python's header, as a condition: $javascript"
test "$python" = "False 2 'False' True False"
test "$javascript" = 'false "False" true'
