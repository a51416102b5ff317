package claimq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	answerTime    = 30 * time.Second // how long the sidecar may take to answer
	defaultSocket = "/run/claimq/claimq.sock"
	noSidecar     = "$CLAIMQ_SOCKET is not set, and there is no directory /run/claimq: no sidecar runs beside this " +
		"program; `claimq up` starts both from queue.yaml"
	advice = "start the sidecar, as `claimq up` does, or set CLAIMQ_SOCKET to the path of its socket"
)

// pauses returns the pauses between attempts: they double from 20 ms to 1 s, and chance shortens each by up to a half.
func pauses() func() time.Duration {
	next := 20 * time.Millisecond
	return func() time.Duration {
		pause := next - time.Duration(rand.Int64N(int64(next/2)))
		next = min(2*next, time.Second)
		return pause
	}
}

// calls sends requests to the socket, and repeats them while the sidecar or its store is away.
type calls struct {
	path             string
	within, patience time.Duration
	isConnected      atomic.Bool // whether the sidecar has answered once
	isAlone          bool        // whether no sidecar will start
	shared, single   http.Client // connections that are used again, and those of one request
}

func newCalls(options Options) *calls {
	c := &calls{path: options.Socket, within: options.Within, patience: options.Patience}
	if c.path == "" {
		c.path = os.Getenv("CLAIMQ_SOCKET")
	}
	if c.path == "" {
		c.path = defaultSocket
		_, err := os.Stat(filepath.Dir(defaultSocket))
		c.isAlone = errors.Is(err, fs.ErrNotExist)
	}
	if c.within == 0 {
		c.within = 10 * time.Second
	}
	if c.isAlone {
		c.within = 0
	}
	if c.patience == 0 {
		c.patience = 2 * time.Minute
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	}
	c.shared.Transport = &http.Transport{DialContext: dial}
	c.single.Transport = &http.Transport{DialContext: dial, DisableKeepAlives: true}
	return c
}

// tryFor is how long a request is repeated.
func (c *calls) tryFor() time.Duration {
	if c.isConnected.Load() {
		return c.patience
	}
	return c.within
}

func (c *calls) post(ctx context.Context, client *http.Client, path string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, "POST", "http://claimq"+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, c.unavailable(err)
	}
	c.isConnected.Store(true)
	return response, nil
}

// ask reads the answer to a request, and returns whether an earlier attempt may have had its effect. An attempt that
// fails is repeated; one that may have arrived only if that is harmless.
func (c *calls) ask(path string, body, answer any, tryFor time.Duration, isRepeatable bool) (isRepeated bool, err error) {
	client := &c.shared
	if !isRepeatable {
		client = &c.single
	}
	giveUp, pause := time.Now().Add(tryFor), pauses()
	for {
		err := c.askOnce(client, path, body, answer)
		if err == nil {
			return isRepeated, nil
		}
		mayHaveArrived := !isNotConnected(err)
		left := time.Until(giveUp)
		if !isRepeatedLater(err) || (mayHaveArrived && !isRepeatable) || left <= 0 {
			return isRepeated, err
		}
		isRepeated = isRepeated || mayHaveArrived
		time.Sleep(min(pause(), left))
	}
}

func (c *calls) askOnce(client *http.Client, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	response, err := c.post(ctx, client, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return c.unavailable(err)
	}
	if response.StatusCode != 200 {
		return refusal(response.StatusCode, raw)
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return c.unavailable(err)
	}
	return nil
}

// refusal is the error that a status other than 200 means.
func refusal(status int, body []byte) error {
	problem := struct{ Type, Detail string }{Detail: "the sidecar gave no reason"}
	_ = json.Unmarshal(body, &problem) // a body that is no problem document has no reason
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		return &StoreUnavailable{problem.Detail}
	}
	return &Refused{status, problem.Type[strings.LastIndex(problem.Type, ":")+1:], problem.Detail}
}

// isRepeatedLater: of the errors of ask, those that another attempt may not meet.
func isRepeatedLater(err error) bool {
	var sidecar *SidecarUnavailable
	var store *StoreUnavailable
	return errors.As(err, &sidecar) || errors.As(err, &store)
}

func isNotConnected(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrPermission)
}

func (c *calls) unavailable(err error) error {
	var reason string
	switch {
	case c.isAlone:
		reason = noSidecar
	case errors.Is(err, fs.ErrNotExist):
		reason = fmt.Sprintf("there is no socket at %s; %s", c.path, advice)
	case errors.Is(err, syscall.ECONNREFUSED):
		reason = fmt.Sprintf("no process answers on the socket %s (its sidecar has ended); %s", c.path, advice)
	case errors.Is(err, fs.ErrPermission):
		reason = fmt.Sprintf("this user may not connect to %s; run the app in the group of the sidecar (fsGroup)", c.path)
	default:
		reason = fmt.Sprintf("the sidecar on %s broke the connection (%v); it may have restarted, and it is unknown whether "+
			"the call took effect", c.path, err)
	}
	return &SidecarUnavailable{reason, err}
}

func (c *calls) close() {
	c.shared.CloseIdleConnections()
	c.single.CloseIdleConnections()
}
