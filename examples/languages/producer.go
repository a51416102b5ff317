// Enqueues each line of the standard input.
package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"log"
	"os"

	claimq "claimq.dev/go"
)

func main() {
	var items []claimq.NewItem
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		id := fmt.Sprintf("%x", sha256.Sum256(lines.Bytes())) // makes it harmless to enqueue the same item again
		items = append(items, claimq.NewItem{Payload: lines.Text(), ID: id})
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	if _, err := claimq.Connect(claimq.Options{}).Enqueue(items...); err != nil {
		log.Fatal(err)
	}
}
