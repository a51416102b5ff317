#!/usr/bin/env bash
# PyYAML 6.0.3 writes the strings "08", "1e3", "0o14" and "y" without quotes, since they are strings in its own dialect.
# Kubernetes' reader (sigs.k8s.io/yaml 1.6.0, used by kubectl and Helm) takes them for the numbers 8, 1000 and 12 and
# for true. Expected was that a manifest that a Python program dumps keeps its strings: "yes", "off" and "012" do get
# quotes. A label month: "08", a tag 1234e5 or an argument "y" is refused by the API server, or arrives as another value.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install pyyaml==6.0.3
"$folder/venv/bin/python" - >"$folder/labels.yaml" <<'PROGRAM'
import yaml

strings = ["08", "1e3", "1234e5", "0o14", "y", "N", "yes", "off", "012", "1_000"]
text = yaml.safe_dump(strings)
assert yaml.safe_load(text) == strings
print(text, end="")
PROGRAM
cd "$folder"
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/reader 2>log
go get sigs.k8s.io/yaml@v1.6.0 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	text, _ := os.ReadFile("labels.yaml")
	read, err := yaml.YAMLToJSON(text)
	fmt.Println(string(read), err)
}
PROGRAM
python3 -c 'import sys; print("PyYAML 6.0.3 wrote", sys.stdin.read().split("\n"))' <labels.yaml
read=$(go run .)
echo "sigs.k8s.io/yaml 1.6.0 read $read"
test "$read" = '[8,1000,123400000,12,true,false,"yes","off","012","1_000"] <nil>'
