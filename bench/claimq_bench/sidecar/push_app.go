// A minimal app that listens for items: it reads each request and responds with 204.
package main

import (
	"io"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	})))
}
