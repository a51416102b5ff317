// A worker in Go without modules. Each item is the path of a file; the result is a line with its SHA-256 and the item's
// id on the standard output.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

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
}

var sidecar = http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", os.Getenv("CLAIMQ_SOCKET"))
	},
}}

func post(path string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return sidecar.Post("http://claimq"+path, "application/json", bytes.NewReader(raw))
}

// ask sends a request until it is answered with 200 or 4xx. To repeat one is harmless.
func ask(path string, body any) (int, answer) {
	for {
		response, err := post(path, body)
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

// openSession opens a session and keeps it open: the sidecar renews what is claimed in it, and gives it back when this
// process dies.
func openSession() string {
	for {
		response, err := post("/v1/session", struct{}{})
		if err == nil {
			var first answer
			stream := bufio.NewReader(response.Body)
			var line []byte
			if line, err = stream.ReadBytes('\n'); err == nil {
				err = json.Unmarshal(line, &first)
			}
			if err == nil && first.Session != "" {
				go func() {
					io.Copy(io.Discard, stream)
					response.Body.Close()
				}()
				return first.Session
			}
			response.Body.Close()
		}
		log.Print("no session: ", err)
		time.Sleep(500 * time.Millisecond)
	}
}

func checksum(one item) (string, error) {
	if one.Text == nil {
		return "", errors.New("the payload is not text")
	}
	file, err := os.Open(*one.Text)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}

func handle(one item) {
	sum, err := checksum(one)
	if err == nil {
		_, err = fmt.Println(sum, one.ID)
	}
	if err != nil {
		ask("/v1/fail", map[string]any{"tokens": []string{one.Token}, "error": err.Error()})
		return
	}
	ask("/v1/done", map[string]any{"tokens": []string{one.Token}})
}

func main() {
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	session := openSession()
	for stop.Err() == nil {
		status, got := ask("/v1/claim", map[string]any{"session": session, "wait": 5, "encoding": "text"})
		switch {
		case status == 409: // the sidecar was restarted
			session = openSession()
		case status != 200:
			log.Fatal(got.Detail)
		case got.Draining:
			return
		}
		for _, one := range got.Claims {
			handle(one)
		}
	}
}
