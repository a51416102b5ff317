#!/bin/bash
# A producer in bash with curl and jq: enqueues each line of the standard input, at most 1,000, in one request.
set -eu -o pipefail

while IFS= read -r line; do
  # An id makes it harmless to enqueue the same item again.
  id=$(printf %s "$line" | sha256sum | cut -d' ' -f1)
  jq -cn --arg text "$line" --arg id "$id" '{text: $text, id: $id}'
done |
  jq -cn '{items: [inputs]}' |
  curl -sS --fail-with-body --unix-socket "$CLAIMQ_SOCKET" http://claimq/v1/enqueue -d @- >/dev/null
