// Does what the header "do" of each item says, and reports it in lines of JSON; see driver.py.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	claimq "claimq.dev/go"
)

type event = map[string]any

var output sync.Mutex

func report(what event) {
	raw, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(raw))
}

func reportError(err error) {
	var forgotten *claimq.ItemNotSettled
	var sidecar *claimq.SidecarUnavailable
	var refused *claimq.Refused
	name := reflect.TypeOf(err).String()
	for _, known := range []any{&forgotten, &sidecar, &refused} {
		if errors.As(err, known) {
			name = strings.TrimPrefix(reflect.TypeOf(known).Elem().String(), "*claimq.")
		}
	}
	report(event{"error": name, "message": err.Error()})
}

func act(item *claimq.Item) (*claimq.Outcome, error) {
	one := func(outcome claimq.Outcome, err error) (*claimq.Outcome, error) { return &outcome, err }
	switch item.Headers["do"] {
	case "raise":
		return nil, errors.New("cannot")
	case "raise-nothing":
		return nil, errors.New("")
	case "json":
		var value any
		return nil, item.JSON(&value)
	case "text":
		_, err := item.Text()
		return nil, err
	case "raise-fail":
		return nil, claimq.Fail{Reason: "why", Permanent: true}
	case "raise-fail-delay":
		return nil, fmt.Errorf("wrapped: %w", claimq.Fail{Reason: "why", Delay: time.Minute})
	case "raise-requeue":
		return nil, claimq.Requeue{Delay: time.Minute}
	case "raise-later":
		return nil, fmt.Errorf("wrapped: %w", claimq.Later{Delay: time.Minute})
	case "done":
		return one(item.Done())
	case "fail":
		return one(item.Fail(errors.New("no")))
	case "fail-permanent":
		return one(item.Fail(claimq.Fail{Reason: "broken", Permanent: true}))
	case "fail-delay":
		return one(item.Fail(claimq.Fail{Reason: "no", Delay: time.Minute}))
	case "requeue":
		return one(item.Requeue(0))
	case "requeue-delay":
		return one(item.Requeue(time.Minute))
	case "later":
		return one(item.Later(time.Minute))
	case "raise-close":
		return nil, claimq.Later{Delay: time.Minute, Close: "queue"}
	case "unclaim":
		return one(item.Unclaim())
	case "renew":
		return one(item.Renew())
	case "done-twice":
		if _, err := item.Done(); err != nil {
			return nil, err
		}
		return one(item.Done())
	case "follow":
		own := claimq.NewItem{Payload: map[string]int{"n": 1}, ID: "own", Delay: time.Minute}
		return one(item.Done(claimq.NewItem{Payload: "next"}, own))
	case "follow-badly":
		return one(item.Done(claimq.NewItem{Payload: "b", ID: "\n"}))
	case "exit":
		os.Exit(3)
	}
	return nil, nil
}

func work(item *claimq.Item) error {
	priority := item.Priority
	if priority == "" {
		priority = "normal"
	}
	report(event{"begin": item.ID, "payload": item.Payload(), "headers": item.Headers, "client": item.Client,
		"priority": priority, "cost": max(item.Cost, 1), "crashes": item.CrashCount, "postponed": item.PostponedCount})
	if pipe := item.Headers["pipe"]; pipe != "" {
		if _, err := os.ReadFile(pipe); err != nil {
			return err
		}
	}
	outcome, err := act(item)
	if err == nil && outcome != nil {
		delay := any(outcome.Delay)
		if outcome.Delay == 0 {
			delay = nil
		}
		report(event{"verdict": item.ID, "is": outcome.Verdict, "delay": delay, "lease": outcome.LeaseUntil > 0})
	}
	return err
}

func produce(worker *claimq.Worker) {
	own := claimq.NewItem{Payload: []int{1}, ID: "own"}
	full := own
	full.Client, full.Delay, full.Headers, full.Priority = "ann", time.Minute, map[string]string{"a": "1"}, "high"
	done, err := worker.Enqueue(claimq.NewItem{Payload: []byte{255}}, claimq.NewItem{Payload: "t"},
		claimq.NewItem{Payload: map[string]int{"a": 1}}, full)
	if err != nil {
		panic(err)
	}
	report(event{"ids": len(done.IDs), "length": done.Length, "last": done.IDs[3]})
	again, err := worker.Enqueue(own)
	if err != nil {
		panic(err)
	}
	report(event{"id": again.IDs[0], "duplicate": len(again.Duplicates) == 1})
	large := strings.Repeat("x", 2_000_000)
	for _, item := range []claimq.NewItem{{Payload: 3}, {Payload: "a", ID: "\n"}, {Payload: large}} {
		if _, err := worker.Enqueue(item); err != nil {
			reportError(err)
		}
	}
}

func main() {
	var options struct {
		Within, Patience float64
		Window           int
		Produce          bool
		Sequential       bool
	}
	if err := json.Unmarshal([]byte(os.Getenv("OPTIONS")), &options); err != nil {
		panic(err)
	}
	seconds := func(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }
	worker := claimq.Connect(claimq.Options{
		Within: seconds(options.Within), Patience: seconds(options.Patience), Window: options.Window,
	})
	if options.Produce {
		produce(worker)
		return
	}
	for item := range worker.Items(context.Background()) {
		switch item.Headers["do"] {
		case "forget":
			continue
		case "leave":
			reportError(errors.New("the program ends"))
			os.Exit(1)
		}
		if !options.Sequential {
			item.Go(func() error { return work(item) })
		} else if _, err := item.Settle(work(item)); err != nil {
			break
		}
	}
	if err := worker.Err(); err != nil {
		reportError(err)
		os.Exit(1)
	}
	report(event{"over": worker.Draining()})
}
