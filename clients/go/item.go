package claimq

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Item is an item that the program works on. Instants are Unix seconds by the store's clock.
type Item struct {
	Token            string            `json:"token"`
	ID               string            `json:"id"`
	Client           string            `json:"client"`
	RequeueCount     int               `json:"requeue_count"`
	FailCount        int               `json:"fail_count"`
	CrashCount       int               `json:"crash_count"`
	InterruptedCount int               `json:"interrupted_count"`
	PostponedCount   int               `json:"postponed_count"`
	EnqueuedAt       float64           `json:"enqueued_at"`
	FirstEnqueuedAt  float64           `json:"first_enqueued_at"`
	ClaimedAt        float64           `json:"claimed_at"`
	LeaseUntil       float64           `json:"lease_until"`
	Headers          map[string]string `json:"headers"`
	Deadline         float64           `json:"deadline"` // 0 if there is none
	MaxRequeues      *int              `json:"max_requeues"`
	Priority         string            `json:"priority"` // "high", "low", or "" for normal
	Key              string            `json:"key"`
	Cost             int               `json:"cost"` // 0 if it costs 1

	text      *string // nil if the payload is not UTF-8
	bytes     []byte
	worker    *Worker
	isBegun   bool     // whether the program has it
	isRunning bool     // whether Go gives it a verdict
	isEnding  bool     // whether its verdict is under way or known
	outcome   *Outcome // what its verdict did
}

// claim is an item as a stream delivers it.
type claim struct {
	Item
	Text  *string `json:"text"`
	Bytes []byte  `json:"payload_base64"`
}

// Outcome is what a verdict did to an item.
type Outcome struct {
	Verdict    string  `json:"outcome"`
	Delay      float64 `json:"delay"`       // seconds
	LeaseUntil float64 `json:"lease_until"` // of a renewal
	Token      string  `json:"token"`
	Earlier    string  `json:"earlier"`
}

// IsLost: another worker has the item or will; discard the result.
func (o Outcome) IsLost() bool { return o.Verdict == "lost" }

// Payload returns the payload, byte for byte.
func (i *Item) Payload() []byte {
	if i.text != nil {
		return []byte(*i.text)
	}
	return i.bytes
}

// Text returns the payload as text, or a PayloadError if it is not UTF-8.
func (i *Item) Text() (string, error) {
	if i.text == nil {
		return "", &PayloadError{fmt.Sprintf("the payload of item %s is not UTF-8", i.ID)}
	}
	return *i.text, nil
}

// JSON reads the payload into a value, or returns a PayloadError.
func (i *Item) JSON(value any) error {
	if err := json.Unmarshal(i.Payload(), value); err != nil {
		return &PayloadError{fmt.Sprintf("the payload of item %s is not the JSON that is expected: %v", i.ID, err)}
	}
	return nil
}

// Go does the work in a goroutine, while the loop begins its next items, and settles the item with its error. A verdict
// that cannot be sent ends the loop.
func (i *Item) Go(work func() error) {
	i.worker.lock.Lock()
	i.isRunning = true
	i.worker.lock.Unlock()
	go func() {
		if _, err := i.Settle(work()); err != nil {
			i.worker.fail(err)
		}
	}()
}

// Settle ends an item after its work: done if there is no error, else failed with it, unless it has a verdict. Fail,
// Requeue and Later as the error give it these verdicts.
func (i *Item) Settle(err error) (Outcome, error) {
	var requeue Requeue
	var later Later
	var sidecar *SidecarUnavailable
	var fail Fail
	switch {
	case errors.As(err, &sidecar):
		return Outcome{}, err
	case err == nil:
		if outcome := i.Outcome(); outcome != nil {
			return *outcome, nil
		}
		return i.Done()
	case errors.As(err, &requeue):
		return i.Requeue(requeue.Delay)
	case errors.As(err, &later):
		return i.later(later)
	case !errors.As(err, &fail):
		i.worker.log("item %s failed: %v", i.ID, err)
	}
	return i.Fail(err)
}

// Done ends an item whose work is finished. follow: items that follow from it, added in the same atomic step.
func (i *Item) Done(follow ...NewItem) (Outcome, error) {
	words := map[string]any{}
	if len(follow) > 0 {
		bodies, err := bodiesOf(follow)
		if err != nil {
			return Outcome{}, err
		}
		words["enqueue"] = bodies
	}
	return i.worker.settle(i, "done", words)
}

// Fail ends an item whose attempt failed: requeued by the queue's policy, or, at its limit, failed. The reason may be a
// Fail.
func (i *Item) Fail(reason error) (Outcome, error) {
	var fail Fail
	text := reason.Error()
	if errors.As(reason, &fail) {
		text = fail.Reason
	}
	if text = strings.ToValidUTF8(text, "\ufffd"); text == "" {
		text = "no reason given"
	}
	words := map[string]any{"error": text, "permanent": fail.Permanent, "delay": seconds(fail.Delay)}
	return i.worker.settle(i, "fail", words)
}

// Requeue: not now. To the tail, or after a delay. Counts against the limit.
func (i *Item) Requeue(delay time.Duration) (Outcome, error) {
	return i.worker.settle(i, "requeue", map[string]any{"delay": seconds(delay)})
}

// Later: not now, but after a delay. Counts neither an attempt nor a failure.
func (i *Item) Later(delay time.Duration) (Outcome, error) { return i.later(Later{Delay: delay}) }

func (i *Item) later(later Later) (Outcome, error) {
	words := map[string]any{"delay": later.Delay.Seconds()}
	if later.Close != "" {
		words["close"] = later.Close
	}
	return i.worker.settle(i, "later", words)
}

// Unclaim: the work never began. Back to the head, uncounted.
func (i *Item) Unclaim() (Outcome, error) { return i.worker.settle(i, "unclaim", map[string]any{}) }

// Renew extends the lease; seldom needed, since the sidecar renews it while this process lives.
func (i *Item) Renew() (Outcome, error) { return i.worker.renew(i) }

// Outcome returns what the verdict on the item did; nil while there is none.
func (i *Item) Outcome() *Outcome {
	i.worker.lock.Lock()
	defer i.worker.lock.Unlock()
	return i.outcome
}

func seconds(delay time.Duration) any {
	if delay == 0 {
		return nil
	}
	return delay.Seconds()
}
