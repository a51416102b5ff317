#!/usr/bin/env bash
# OpenTelemetry for Python 1.45.2 sends a space in a baggage value as "+" (the encoding of web forms), and reads "+" as a
# space. OpenTelemetry for JavaScript 3.1.1 sends "%20" and leaves "+" alone, as W3C Baggage says (percent-encoding).
# Expected was that both read what the other sends: "a b" from Python is "a+b" in JavaScript, and a "+" that another
# program sends unencoded, which the format allows, is a space in Python. A tenant or a queue name in the baggage changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install opentelemetry-api==1.45.2
cd "$folder"
npm install --silent --no-fund --no-audit @opentelemetry/api@1.10.0 @opentelemetry/core@3.1.1 >log
cat >javascript.mjs <<'PROGRAM'
import * as core from '@opentelemetry/core';
import * as api from '@opentelemetry/api';

const propagator = new core.W3CBaggagePropagator();
const [verb, text] = process.argv.slice(2);
if (verb === 'write') {
  const carrier = {};
  const baggage = api.propagation.createBaggage({ tenant: { value: text } });
  propagator.inject(api.propagation.setBaggage(api.ROOT_CONTEXT, baggage), carrier, api.defaultTextMapSetter);
  console.log(carrier.baggage);
} else {
  const context = propagator.extract(api.ROOT_CONTEXT, { baggage: text }, api.defaultTextMapGetter);
  console.log(api.propagation.getBaggage(context).getEntry('tenant').value);
}
PROGRAM
cat >python.py <<'PROGRAM'
import sys
from opentelemetry import baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator

propagator = W3CBaggagePropagator()
verb, text = sys.argv[1:]
if verb == "write":
    carrier = {}
    propagator.inject(carrier, baggage.set_baggage("tenant", text))
    print(carrier["baggage"])
else:
    print(baggage.get_baggage("tenant", propagator.extract({"baggage": text})))
PROGRAM
check() { # what is printed, the expected text, the command
  local title=$1 expected=$2 text
  text=$("${@:3}")
  echo "$title: $text"
  test "$text" = "$expected"
}
echo "opentelemetry-api 1.45.2 for Python, @opentelemetry/core 3.1.1 for JavaScript"
python=("$folder/venv/bin/python" python.py)
javascript=(node javascript.mjs)
check "Python writes 'a b'" 'tenant=a+b' "${python[@]}" write 'a b'
check "JavaScript writes 'a b'" 'tenant=a%20b' "${javascript[@]}" write 'a b'
check "JavaScript reads tenant=a+b" 'a+b' "${javascript[@]}" read 'tenant=a+b'
check "Python reads tenant=a+b" 'a b' "${python[@]}" read 'tenant=a+b'
