#!/usr/bin/env bash
# k8s.io/client-go 0.34.2, util/jsonpath (kubectl's -o jsonpath and the printer columns of resources): a filter
# compares a whole number with whole numbers only and a fraction with fractions only. One item with 5.5 makes ?(@.n>5)
# fail for the whole list with "incompatible types for comparison", and ?(@.n>4.5) fails for 7. With a document that
# encoding/json has read, where each number is a float64, even ?(@.n==7) fails for {"n": 7}, and ?(@.n==7.0) works.
# Expected were the answers of RFC 9535, which jsonpath-ng 1.16.0 gives.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install jsonpath-ng==1.16.0
cd "$folder"
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/paths 2>log
go get k8s.io/client-go@v0.34.2 k8s.io/apimachinery@v0.34.2 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	kubernetes "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
)

func main() {
	for _, unmarshal := range []func([]byte, any) error{kubernetes.Unmarshal, json.Unmarshal} {
		for _, query := range os.Args[2:] {
			document := map[string]any{}
			if err := unmarshal([]byte(os.Args[1]), &document); err != nil {
				panic(err)
			}
			path := jsonpath.New("path")
			if err := path.Parse("{." + query + "}"); err != nil {
				panic(err)
			}
			var answer bytes.Buffer
			if err := path.Execute(&answer, document); err != nil {
				fmt.Printf("%s: error: %v\n", query, err)
			} else {
				fmt.Printf("%s: %s\n", query, answer.String())
			}
		}
	}
}
PROGRAM
go mod tidy 2>>log
go build -o paths . 2>>log
cat >python.py <<'PROGRAM'
import json
import sys
from jsonpath_ng.ext import parse

for query in sys.argv[2:]:
    print(f"{query}:", *(match.value for match in parse("$." + query).find(json.loads(sys.argv[1]))))
PROGRAM
document='{"items": [{"n": 4, "id": "a"}, {"n": 5.5, "id": "b"}, {"n": 7, "id": "c"}], "whole": [{"n": 7, "id": "d"}]}'
queries=('items[?(@.n>5)].id' 'items[?(@.n>4.5)].id' 'whole[?(@.n==7)].id' 'whole[?(@.n==7.0)].id')
answers=$(./paths "$document" "${queries[@]}")
others=$("$folder/venv/bin/python" python.py "$document" "${queries[@]}")
echo "client-go 0.34.2 with the numbers of apimachinery, then with those of encoding/json, then jsonpath-ng 1.16.0"
echo "$answers"
echo "$others"
diff <(echo "$answers"; echo "$others") - <<'ANSWER'
items[?(@.n>5)].id: error: incompatible types for comparison
items[?(@.n>4.5)].id: error: incompatible types for comparison
whole[?(@.n==7)].id: d
whole[?(@.n==7.0)].id: error: incompatible types for comparison
items[?(@.n>5)].id: error: incompatible types for comparison
items[?(@.n>4.5)].id: b c
whole[?(@.n==7)].id: error: incompatible types for comparison
whole[?(@.n==7.0)].id: d
items[?(@.n>5)].id: b c
items[?(@.n>4.5)].id: b c
whole[?(@.n==7)].id: d
whole[?(@.n==7.0)].id: d
ANSWER
