#!/usr/bin/env bash
# lightkube 1.0.1 (Python): parse_quantity and equals_canonically, made for comparing user input with what Kubernetes
# returns, refuse the suffixes n and u, and the exponent with a capital E. Kubernetes writes n and u itself: the metrics
# API reports CPU usage as "11122600n", and apimachinery 0.34.2 turns "0.1m" into "100u". The grammar in the reference
# of Quantity has no n and no u, and it says that 0.1m is rounded up to 1m, as lightkube does. Expected was that
# lightkube reads what apimachinery writes, as the kubernetes client 37.0.2 for Python does.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install lightkube==1.0.1 kubernetes==37.0.2
cd "$folder"
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/quantities 2>log
go get k8s.io/apimachinery@v0.34.2 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	for _, text := range os.Args[1:] {
		quantity := resource.MustParse(text)
		quantity.Add(resource.Quantity{}) // forgets the text that was read
		fmt.Println(quantity.String())
	}
}
PROGRAM
go mod tidy 2>>log
go build -o quantities . 2>>log
cat >python.py <<'PROGRAM'
import sys
from kubernetes.utils.quantity import parse_quantity as official
from lightkube.utils.quantity import equals_canonically, parse_quantity


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except ValueError as error:
        return f"ValueError: {error}"


for text, written in zip(sys.argv[1:], sys.stdin.read().split()):
    values = attempt(parse_quantity, text), attempt(parse_quantity, written)
    equal = attempt(equals_canonically, {"cpu": text}, {"cpu": written})
    print(f"{text} = {written}; lightkube: {values[0]} and {values[1]}; equal: {equal}; kubernetes: {official(written):f}")
PROGRAM
texts=(0.5 0.9Gi 0.1m 0.0005 11122600n 1e3 1E3)
answers=$(./quantities "${texts[@]}" | "$folder/venv/bin/python" python.py "${texts[@]}")
echo "lightkube 1.0.1, apimachinery 0.34.2, kubernetes 37.0.2"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
0.5 = 500m; lightkube: 0.500 and 0.500; equal: True; kubernetes: 0.500
0.9Gi = 966367641600m; lightkube: 966367641.600 and 966367641.600; equal: True; kubernetes: 966367641.600
0.1m = 100u; lightkube: 0.001 and ValueError: Invalid unit suffix: u; equal: ValueError: Invalid unit suffix: u; kubernetes: 0.000100
0.0005 = 500u; lightkube: 0.001 and ValueError: Invalid unit suffix: u; equal: ValueError: Invalid unit suffix: u; kubernetes: 0.000500
11122600n = 11122600n; lightkube: ValueError: Invalid unit suffix: n and ValueError: Invalid unit suffix: n; equal: True; kubernetes: 0.011122600
1e3 = 1e3; lightkube: 1000.000 and 1000.000; equal: True; kubernetes: 1000
1E3 = 1e3; lightkube: ValueError: Invalid unit suffix: E3 and 1000.000; equal: ValueError: Invalid unit suffix: E3; kubernetes: 1000
ANSWER
