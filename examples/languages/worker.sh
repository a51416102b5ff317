#!/bin/bash
# A worker in bash with curl and jq. Each item is the path of a file; the result is a line with its SHA-256 and the
# item's id on the standard output.
set -u -o pipefail

stopping=
trap 'stopping=1' TERM INT

# Sends a request until it is answered with 200 or 4xx, and prints the status and the answer. To repeat one is harmless.
# It runs in a subshell, which ends when the worker ($$) was killed.
ask() {
  local answer
  until answer=$(curl -sS --unix-socket "$CLAIMQ_SOCKET" -w '\n%{http_code}' "http://claimq$1" -d "$2") &&
    [[ ${answer##*$'\n'} =~ ^(200|4[0-9][0-9])$ && ${answer##*$'\n'} != 429 ]]; do
    sleep 0.5
    kill -0 $$ 2>/dev/null || exit
  done
  printf '%s\n' "$answer"
}

# Opens a session and keeps it open in the background: the sidecar renews what is claimed in it.
open_session() {
  local stream
  session=
  until [[ $session ]]; do
    exec {stream}< <(exec curl -sSN --unix-socket "$CLAIMQ_SOCKET" http://claimq/v1/session -d '{}')
    read -r -u "$stream" first && session=$(jq -r '.session // empty' <<<"$first")
    [[ $session ]] && keep_open $! <&"$stream" >/dev/null {stream}<&- &
    exec {stream}<&-
    [[ $session ]] || sleep 0.5
  done
}

# Reads the rest of a session, one line in ten seconds: a curl that cannot write would lose it. Within a second after
# the worker ($$) has ended, this ends curl ($1), and the items are given back.
keep_open() {
  while kill -0 $$ 2>/dev/null; do
    read -r -t 1 || (($? > 128)) || return
  done
  kill "$1"
}

handle() {
  local token id path sum
  token=$(jq -r .token <<<"$1") id=$(jq -r .id <<<"$1")
  if ! path=$(jq -ej .text <<<"$1" && echo .); then # the last character stays: $() removes newlines at the end
    sum="the payload is not text"
  elif sum=$(sha256sum 2>&1 <"${path%.}"); then
    echo "${sum%% *} $id"
    ask /v1/done "$(jq -cn --arg token "$token" '{tokens: [$token]}')" >/dev/null
    return
  fi
  ask /v1/fail "$(jq -cn --arg token "$token" --arg error "$sum" '{tokens: [$token], error: $error}')" >/dev/null
}

open_session
until [[ $stopping ]]; do
  answer=$(ask /v1/claim "$(jq -cn --arg session "$session" '{session: $session, wait: 5, encoding: "text"}')")
  status=${answer##*$'\n'} body=${answer%$'\n'*}
  case $status in
    200) ;;
    409) open_session; continue ;; # the sidecar was restarted
    *) jq -r .detail <<<"$body" >&2; exit 1 ;;
  esac
  [[ $(jq .draining <<<"$body") == true ]] && break
  while read -r item; do handle "$item"; done < <(jq -c '.claims[]' <<<"$body")
done
