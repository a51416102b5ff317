package claimq

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	silence    = time.Minute     // without a line after which a stream is broken
	steady     = time.Second     // an older stream is followed by another at once
	giveBackIn = 5 * time.Second // afterwards items go back when their leases end
)

// stream delivers the items of a worker, and its connection shows the sidecar that this process lives. When one breaks,
// the next takes over the claims of worker.tokens().
type stream struct {
	calls    *calls
	worker   *Worker
	window   int
	ctx      context.Context
	close    context.CancelFunc
	isEnding atomic.Bool // deliver nothing more
	opening  sync.Mutex  // while one is opened
	session  string      // of the last one that delivers; "" if there is none
}

type line struct {
	Session  string   `json:"session"`
	Draining bool     `json:"draining"`
	Lost     []string `json:"lost"`
	Claims   []claim  `json:"claims"`
}

func newStream(worker *Worker, window int) *stream {
	s := &stream{calls: worker.calls, worker: worker, window: window}
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// read reads until close. It returns Refused, and the reason when none can be opened for as long as calls are repeated.
func (s *stream) read() error {
	giveUp, pause := time.Now().Add(s.calls.tryFor()), pauses()
	for {
		began := time.Now()
		isOpen, err := s.readOne()
		if s.ctx.Err() != nil {
			return nil
		}
		if isOpen {
			if !s.isEnding.Load() {
				s.worker.log("the stream of the sidecar has ended; opening another")
			}
			giveUp = time.Now().Add(s.calls.patience)
			if time.Since(began) > steady {
				pause = pauses()
			}
		} else if !isRepeatedLater(err) || time.Now().After(giveUp) {
			return err
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(pause()):
		}
	}
}

func (s *stream) readOne() (isOpen bool, err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel() // closes it
	silent := time.AfterFunc(silence, cancel)
	defer silent.Stop()
	lines, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	for {
		var next line
		if err := lines.Decode(&next); err != nil {
			return true, s.calls.unavailable(err)
		}
		silent.Reset(silence)
		s.worker.note(next)
	}
}

// open opens one and reads its first line. While the worker stops, it is a session, which delivers nothing.
func (s *stream) open(ctx context.Context) (*json.Decoder, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.session = ""
	tokens := s.worker.tokens()
	path, body := "/v1/session", map[string]any{"tokens": tokens[max(0, len(tokens)-most):]}
	if !s.isEnding.Load() {
		path, body["encoding"] = "/v1/stream", "text"
		if s.window > 0 {
			body["window"] = s.window
		}
	}
	response, err := s.calls.post(ctx, &s.calls.single, path, body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(response.Body) // the status alone means enough
		return nil, refusal(response.StatusCode, raw)
	}
	var first line
	lines := json.NewDecoder(response.Body)
	if err := lines.Decode(&first); err != nil {
		return nil, s.calls.unavailable(err)
	}
	if path == "/v1/stream" {
		s.session = first.Session
	}
	s.worker.note(first)
	return lines, nil
}

// giveBack ends the delivery, and gives back what was delivered but not begun, also by a stream that is being opened.
func (s *stream) giveBack() {
	s.isEnding.Store(true)
	s.opening.Lock()
	session := s.session
	s.opening.Unlock()
	tryFor := giveBackIn
	isDraining := s.worker.Draining()
	if isDraining { // the sidecar gives back the rest itself
		tryFor = 0
	}
	tokens := s.worker.tokens()
	if session != "" {
		var answer struct{ Tokens []string }
		_, err := s.calls.ask("/v1/window", map[string]any{"session": session, "window": 0}, &answer, tryFor, true)
		var refused *Refused
		switch {
		case err == nil:
			tokens = answer.Tokens // also of items that were not read yet
		case !isDraining && !errors.As(err, &refused):
			s.worker.log("the sidecar did not list what was not begun: %v", err)
		}
	}
	if tokens = s.worker.forget(tokens); len(tokens) == 0 {
		return
	}
	var answer struct{}
	if _, err := s.calls.ask("/v1/unclaim", map[string]any{"tokens": tokens}, &answer, tryFor, true); err != nil {
		s.worker.log("items that were not begun go back when their leases end: %v", err)
	}
}
