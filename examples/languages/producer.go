// A producer in Go without modules: enqueues each line of the standard input.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

const batch = 100

type item struct {
	Text string `json:"text"`
	ID   string `json:"id"`
}

var sidecar = http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", os.Getenv("CLAIMQ_SOCKET"))
	},
}}

func enqueue(items []item) {
	raw, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		log.Fatal(err)
	}
	response, err := sidecar.Post("http://claimq/v1/enqueue", "application/json", bytes.NewReader(raw))
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	if answer, _ := io.ReadAll(response.Body); response.StatusCode != 200 {
		log.Fatalf("%s", answer)
	}
}

func main() {
	var items []item
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		// An id makes it harmless to enqueue the same item again.
		id := sha256.Sum256(lines.Bytes())
		items = append(items, item{lines.Text(), hex.EncodeToString(id[:])})
		if len(items) == batch {
			enqueue(items)
			items = nil
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	if len(items) > 0 {
		enqueue(items)
	}
}
