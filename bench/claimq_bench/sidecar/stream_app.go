// A minimal app that reads a stream and ends its items in batches, one request at a time.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
)

const most = 1000 // tokens in one request

var sidecar = http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", os.Args[1])
	},
}}

func post(path string, body any) io.ReadCloser {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	response, err := sidecar.Post("http://claimq"+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		panic(err)
	}
	if response.StatusCode != 200 {
		panic(response.Status)
	}
	return response.Body
}

func settle(tokens chan string) {
	for token := range tokens {
		batch := []string{token}
		for len(batch) < most && len(tokens) > 0 {
			batch = append(batch, <-tokens)
		}
		outcomes := post("/v1/done", map[string][]string{"tokens": batch})
		io.Copy(io.Discard, outcomes)
		outcomes.Close()
	}
}

func main() {
	tokens := make(chan string, most)
	go settle(tokens)
	var line struct {
		Claims []struct{ Token, Payload_base64 string }
	}
	for lines := json.NewDecoder(post("/v1/stream", map[string]any{"window": most, "encoding": "base64"})); ; {
		line.Claims = nil
		if err := lines.Decode(&line); err != nil {
			panic(err)
		}
		for _, claim := range line.Claims {
			tokens <- claim.Token
		}
	}
}
