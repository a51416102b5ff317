package claimq

import (
	"encoding/json"
	"fmt"
	"time"
)

const (
	most         = 1000            // verdicts or items in one request
	requestBytes = 8 * 1024 * 1024 // of the items of one request, unless one alone has more
)

// NewItem is an item to add. Payload: []byte, a string, or a value that is stored as a JSON object or array.
type NewItem struct {
	Payload      any
	ID           string
	Client       string
	Delay        time.Duration
	Headers      map[string]string
	ExpiresIn    time.Duration
	MaxRequeues  *int
	Priority     string // "high", "normal" or "low"
	Key          string
	Cost         int // 0 stands for 1
}

// Enqueued is what Enqueue did: the ids in order, the length of the queue, and which ids were there before.
type Enqueued struct {
	IDs        []string `json:"ids"`
	Length     int      `json:"length"`
	Duplicates []string `json:"duplicates"`
}

func (n NewItem) body() (json.RawMessage, error) {
	words := map[string]any{}
	switch payload := n.Payload.(type) {
	case string:
		words["text"] = payload
	case []byte:
		words["payload_base64"] = payload
	default:
		raw, err := json.Marshal(payload)
		if err != nil {
			return nil, err
		}
		if raw[0] != '{' && raw[0] != '[' {
			return nil, fmt.Errorf("a payload is []byte, a string, or a value that is stored as a JSON object or array, not %s; "+
				"put a single number, boolean or nil into a slice or encode it yourself", raw)
		}
		words["payload"] = json.RawMessage(raw)
	}
	for name, value := range map[string]string{
		"id": n.ID, "client": n.Client, "priority": n.Priority, "key": n.Key,
	} {
		if value != "" {
			words[name] = value
		}
	}
	for name, value := range map[string]time.Duration{"delay": n.Delay, "expires_in": n.ExpiresIn} {
		if value != 0 {
			words[name] = value.Seconds()
		}
	}
	if n.Headers != nil {
		words["headers"] = n.Headers
	}
	if n.Cost != 0 {
		words["cost"] = n.Cost
	}
	if n.MaxRequeues != nil {
		words["max_requeues"] = *n.MaxRequeues
	}
	return json.Marshal(words)
}

func bodiesOf(items []NewItem) ([]json.RawMessage, error) {
	bodies := make([]json.RawMessage, len(items))
	for number, item := range items {
		body, err := item.body()
		if err != nil {
			return nil, err
		}
		bodies[number] = body
	}
	return bodies, nil
}

// Enqueue adds items in order. After SidecarUnavailable and StoreUnavailable they may be stored: enqueue again only those
// with ids of your own.
func (w *Worker) Enqueue(items ...NewItem) (Enqueued, error) {
	var result Enqueued
	bodies, err := bodiesOf(items)
	isRepeatable := true
	for _, item := range items {
		isRepeatable = isRepeatable && item.ID != ""
	}
	for start := 0; err == nil && start < len(bodies); {
		end, size := start, 0
		for end < len(bodies) && end-start < most && (end == start || size+len(bodies[end]) <= requestBytes) {
			size += len(bodies[end])
			end++
		}
		var answer Enqueued
		request := map[string]any{"items": bodies[start:end]}
		if _, err = w.calls.ask("/v1/enqueue", request, &answer, w.calls.tryFor(), isRepeatable); err == nil {
			result.IDs = append(result.IDs, answer.IDs...)
			result.Duplicates = append(result.Duplicates, answer.Duplicates...)
			result.Length = answer.Length
		}
		start = end
	}
	return result, err
}
