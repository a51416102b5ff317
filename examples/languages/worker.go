// Each item is the path of a file; the result is a line with its SHA-256 and the item's id on the standard output.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"os"

	claimq "claimq.dev/go"
)

func work(item *claimq.Item) error {
	path, err := item.Text()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Printf("%x %s\n", sha256.Sum256(content), item.ID)
	}
	return err
}

func main() {
	worker := claimq.Connect(claimq.Options{})
	for item := range worker.Items(context.Background()) {
		item.Go(func() error { return work(item) })
	}
	if err := worker.Err(); err != nil {
		log.Fatal(err)
	}
}
