#!/usr/bin/env bash
# kubernetes 37.0.2 for Python writes the renewTime of a Lease as datetime.isoformat() prints it. At a whole second that
# has no fraction, and Kubernetes' own decoder (MicroTime of k8s.io/apimachinery 0.34.2) refuses it, as it refuses any
# number of decimals but six. Expected was a client that writes what the API server reads, or a decoder as lenient as
# that of Time, which takes any fraction. A leader that renews at times without microseconds (a fixed clock in a test,
# a time rounded to seconds, one renewal in a million otherwise) gets an error for a valid object and may lose the lead;
# so does a client that reads a Lease of a Go program with the fraction .000000 and writes it back unchanged.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install --no-compile kubernetes==37.0.2
cd "$folder"
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/reader 2>log
go get k8s.io/apimachinery@v0.34.2 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"encoding/json"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	for _, text := range os.Args[1:] {
		var micro metav1.MicroTime
		var whole metav1.Time
		fmt.Printf("%-34s", text)
		fmt.Printf(" MicroTime read: %-5v", json.Unmarshal([]byte(`"`+text+`"`), &micro) == nil)
		fmt.Printf(" Time read: %v\n", json.Unmarshal([]byte(`"`+text+`"`), &whole) == nil)
	}
}
PROGRAM
go build -o reader . 2>>log
cat >writer.py <<'PROGRAM'
import json
from datetime import UTC, datetime
from kubernetes import client

for microsecond in (5, 0):
    renewed = datetime(2026, 11, 27, 10, 0, 0, microsecond, tzinfo=UTC)
    lease = client.V1Lease(spec=client.V1LeaseSpec(renew_time=renewed))
    print(client.ApiClient().sanitize_for_serialization(lease)["spec"]["renewTime"])
text = json.dumps({"spec": {"renewTime": "2026-11-27T10:00:01.000000Z"}})
read = client.ApiClient().deserialize(text, "V1Lease", "application/json")
print(client.ApiClient().sanitize_for_serialization(read)["spec"]["renewTime"])
PROGRAM
"$folder/venv/bin/python" writer.py >written
mapfile -t written <written
answer=$(./reader "${written[@]}" 2026-11-27T10:00:00.5Z 2026-11-27T10:00:00.123456789Z)
echo "kubernetes 37.0.2 wrote ${written[*]}; k8s.io/apimachinery 0.34.2:"
echo "$answer"
diff <(echo "$answer") - <<'ANSWER'
2026-11-27T10:00:00.000005+00:00   MicroTime read: true  Time read: true
2026-11-27T10:00:00+00:00          MicroTime read: false Time read: true
2026-11-27T10:00:01+00:00          MicroTime read: false Time read: true
2026-11-27T10:00:00.5Z             MicroTime read: false Time read: true
2026-11-27T10:00:00.123456789Z     MicroTime read: false Time read: true
ANSWER
