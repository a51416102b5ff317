#!/usr/bin/env bash
# github.com/google/uuid 1.6.0 (Go): NewV6 makes equal UUIDs within milliseconds. It writes the version over four bits
# of the time (units of 409.6 µs) and puts the others elsewhere than RFC 9562, so that other libraries read another
# century: github.com/gofrs/uuid/v5 5.5.1, whose version 6 keeps all bits, finds a year before 1700. Expected was what
# NewV7 of the same library keeps: 100,000 different ids. Items or calls that are told apart by such an id are taken for
# repetitions. Later source has the right layout (pull request 161), but no version with it has been published.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/ids 2>log
go get github.com/google/uuid@v1.6.0 github.com/gofrs/uuid/v5@v5.5.1 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"fmt"

	gofrs "github.com/gofrs/uuid/v5"
	"github.com/google/uuid"
)

func repetitions(make func() string) int {
	seen := map[string]bool{}
	for range 100_000 {
		seen[make()] = true
	}
	return 100_000 - len(seen)
}

func main() {
	six := func() string { return uuid.Must(uuid.NewV6()).String() }
	fmt.Println("google version 6, some repeat:", repetitions(six) > 100)
	fmt.Println("google version 7, repetitions:", repetitions(func() string { return uuid.Must(uuid.NewV7()).String() }))
	fmt.Println("gofrs version 6, repetitions:", repetitions(func() string { return gofrs.Must(gofrs.NewV6()).String() }))
	stamp, err := gofrs.TimestampFromV6(gofrs.Must(gofrs.FromString(six())))
	if err != nil {
		panic(err)
	}
	time, err := stamp.Time()
	if err != nil {
		panic(err)
	}
	fmt.Println("google version 6, read by gofrs, before 1700:", time.Year() < 1700)
}
PROGRAM
go build -o ids . 2>>log
answers=$(./ids)
echo "google/uuid 1.6.0, gofrs/uuid 5.5.1"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
google version 6, some repeat: true
google version 7, repetitions: 0
gofrs version 6, repetitions: 0
google version 6, read by gofrs, before 1700: true
ANSWER
