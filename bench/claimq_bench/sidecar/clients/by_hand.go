// A worker in Go without a client, as careful as one: it ends each item at once. It works on as many items at once as the
// sidecar's concurrency allows.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const silence = time.Minute // without a line after which a stream is broken

type item struct {
	Token string
	ID    string
	Text  *string
}

type answer struct {
	Claims   []item
	Draining bool
	Session  string
	Detail   string
	Tokens   []string
}

var sidecar = http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", os.Getenv("CLAIMQ_SOCKET"))
	},
}}

func post(ctx context.Context, path string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, "POST", "http://claimq"+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return sidecar.Do(request)
}

// ask sends a request until it is answered with 200 or 4xx. To repeat one is harmless.
func ask(path string, body any) (int, answer) {
	for {
		response, err := post(context.Background(), path, body)
		if err == nil {
			var got answer
			err = json.NewDecoder(response.Body).Decode(&got)
			response.Body.Close()
			if err == nil && response.StatusCode < 500 && response.StatusCode != 429 {
				return response.StatusCode, got
			}
			if err == nil {
				err = errors.New(got.Detail)
			}
		}
		log.Print(err)
		time.Sleep(500 * time.Millisecond)
	}
}

type verdict struct {
	Token string `json:"token"`
	Error string `json:"error,omitempty"`
}

// worker has the items in progress, by their tokens.
type worker struct {
	opening  sync.Mutex // while a stream is opened
	session  string     // of the last stream
	lock     sync.Mutex
	tokens   map[string]bool
	stopping bool // begin no more items
	ended    sync.WaitGroup
	verdicts chan verdict
}

// begin starts the work on an item unless the worker is stopping.
func (w *worker) begin(one item) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if !w.stopping {
		w.tokens[one.Token] = true
		w.ended.Add(1)
		go func() { w.verdicts <- handle(one) }()
	}
}

// settle sends the verdicts. Those that come while a request is in flight share the next one.
func (w *worker) settle() {
	for one := range w.verdicts {
		done, fail := []verdict{}, []verdict{}
		for more := true; more; {
			if one.Error == "" {
				done = append(done, one)
			} else {
				fail = append(fail, one)
			}
			select {
			case one = <-w.verdicts:
			default:
				more = false
			}
		}
		if status, got := ask("/v1/verdicts", map[string]any{"done": done, "fail": fail}); status != 200 {
			log.Fatal(got.Detail)
		}
		w.lock.Lock()
		for _, ended := range append(done, fail...) {
			delete(w.tokens, ended.Token)
			w.ended.Done()
		}
		w.lock.Unlock()
	}
}

// open opens a stream, which takes over the items in progress, and returns its lines after the first.
func (w *worker) open(ctx context.Context, stop func()) (*json.Decoder, error) {
	w.opening.Lock()
	defer w.opening.Unlock()
	w.lock.Lock()
	stopping, tokens := w.stopping, []string{}
	for token := range w.tokens {
		tokens = append(tokens, token)
	}
	w.lock.Unlock()
	if stopping {
		return nil, errors.New("stopping")
	}
	response, err := post(ctx, "/v1/stream", map[string]any{"tokens": tokens, "encoding": "text"})
	if err != nil {
		return nil, err
	}
	var first answer
	lines := json.NewDecoder(response.Body)
	if err := lines.Decode(&first); err != nil {
		return nil, err
	}
	if response.StatusCode != 200 {
		return nil, errors.New(first.Detail)
	}
	w.session = first.Session
	if first.Draining {
		stop()
	}
	return lines, nil
}

// read begins each item of a stream until the stream breaks.
func (w *worker) read(stop func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // closes the stream
	silent := time.AfterFunc(silence, cancel)
	defer silent.Stop()
	lines, err := w.open(ctx, stop)
	if err != nil {
		return err
	}
	for ; ; silent.Reset(silence) {
		var line answer
		if err := lines.Decode(&line); err != nil {
			return err
		}
		for _, one := range line.Claims {
			w.begin(one)
		}
		if line.Draining {
			stop()
		}
	}
}

// finish gives back what was delivered and not begun, and waits for the rest.
func (w *worker) finish() {
	w.lock.Lock()
	w.stopping = true
	w.lock.Unlock()
	w.opening.Lock() // a stream that is being opened delivers items too
	session := w.session
	w.opening.Unlock()
	if session != "" {
		_, got := ask("/v1/window", map[string]any{"session": session, "window": 0})
		rest := []string{}
		w.lock.Lock()
		for _, token := range got.Tokens {
			if !w.tokens[token] {
				rest = append(rest, token)
			}
		}
		w.lock.Unlock()
		if len(rest) > 0 {
			ask("/v1/unclaim", map[string]any{"tokens": rest})
		}
	}
	w.ended.Wait()
}

func handle(one item) verdict {
	if one.Text == nil {
		return verdict{one.Token, "the payload is not text"}
	}
	return verdict{Token: one.Token}
}

func main() {
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	w := worker{tokens: map[string]bool{}, verdicts: make(chan verdict)}
	go w.settle()
	go func() {
		for asked.Err() == nil {
			log.Print(w.read(stop))
			time.Sleep(500 * time.Millisecond)
		}
	}()
	<-asked.Done()
	w.finish()
}
