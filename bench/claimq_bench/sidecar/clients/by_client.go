// The worker of by_hand.go, with the client.
package main

import (
	"context"
	"log"

	claimq "claimq.dev/go"
)

func main() {
	worker := claimq.Connect(claimq.Options{})
	for item := range worker.Items(context.Background()) {
		item.Go(func() error {
			_, err := item.Text()
			return err
		})
	}
	if err := worker.Err(); err != nil {
		log.Fatal(err)
	}
}
