#!/usr/bin/env bash
# cloudevents 2.2.0 for Python: an event with the content type application/json and the string "007" or "42" as data
# changes on the way in binary mode. The string is sent without quotes (which is another JSON value or none), and the
# library's own reader returns the number 42, None for "null" and "", and a string only where the text is no JSON.
# In structured mode the same event keeps its string. Expected was the same data in both modes. The JavaScript library
# (cloudevents 10.0.0) sends the same text, with application/json even if no content type was given.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install cloudevents==2.2.0
"$folder/venv/bin/python" - <<'PROGRAM'
import importlib.metadata
from cloudevents.core.bindings import http
from cloudevents.core.v1.event import CloudEvent

print("cloudevents", importlib.metadata.version("cloudevents"), "for Python")
expected = {"42": 42, "1e3": 1000.0, "true": True, "null": None, "": None, "007": "007", "text": "text"}
for data, read in expected.items():
    attributes = {"id": "1", "source": "orders", "type": "order", "specversion": "1.0"}
    event = CloudEvent(attributes={**attributes, "datacontenttype": "application/json"}, data=data)
    binary = http.to_binary_event(event)
    back = http.from_http_event(binary).get_data()
    structured = http.from_http_event(http.to_structured_event(event)).get_data()
    print(f"{data!r:7} binary body {binary.body!r:8} read back {back!r:8} structured mode {structured!r}")
    assert type(back) is type(read) and back == read, back
    assert structured == data
PROGRAM
cd "$folder"
npm install --silent --no-fund --no-audit cloudevents@10.0.0 >log
cat >javascript.mjs <<'PROGRAM'
import { CloudEvent, HTTP } from 'cloudevents';

const { body, headers } = HTTP.binary(new CloudEvent({ source: 'orders', type: 'order', data: '42' }));
console.log(headers['content-type'], typeof body, body);
PROGRAM
sent=$(node javascript.mjs)
echo "cloudevents 10.0.0 for JavaScript sends the string '42' as: $sent"
test "$sent" = "application/json; charset=utf-8 string 42"
