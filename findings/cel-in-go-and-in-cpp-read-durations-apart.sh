#!/usr/bin/env bash
# The two implementations of CEL by its own project differ: duration("1500ms").getMilliseconds() is 1500 in cel-go 0.26.1
# (which Kubernetes uses) and 500, the part beyond the second, in cel-cpp (cel-expr-python 0.1.3), while getSeconds(),
# getMinutes() and getHours() are totals in both. string() of a timestamp keeps its offset in Go and changes to UTC in
# C++, and int(" 1") is an error in Go and 1 in C++. Expected was one answer. A rule that was tried out in Python is
# judged differently by the API server.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install cel-expr-python==0.1.3
cd "$folder"
cat >expressions <<'LINES'
duration("1500ms").getMilliseconds()
duration("90m").getSeconds()
string(duration("1.5s"))
string(timestamp("2026-11-27T10:00:00+01:00"))
int(" 1")
LINES
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/rules 2>log
go get github.com/google/cel-go@v0.26.1 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
)

func main() {
	env, err := cel.NewEnv()
	if err != nil {
		panic(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		rule, issues := env.Compile(lines.Text())
		if issues.Err() != nil {
			panic(issues.Err())
		}
		program, err := env.Program(rule)
		if err != nil {
			panic(err)
		}
		value, _, err := program.Eval(map[string]any{})
		if err != nil {
			fmt.Println("error")
			continue
		}
		fmt.Println(value)
	}
}
PROGRAM
go build -o rules . 2>>log
cat >rules.py <<'PROGRAM'
import sys
from cel_expr_python import cel

rules = cel.NewEnv(variables={})
for line in sys.stdin:
    print(rules.compile(line.rstrip("\n")).eval(data={}).value())
PROGRAM
./rules <expressions >go.answers
"$folder/venv/bin/python" rules.py <expressions >cpp.answers
echo "expression, cel-go 0.26.1, cel-expr-python 0.1.3"
answers=$(paste -d '|' expressions go.answers cpp.answers)
echo "$answers"
diff <(cut -d '|' -f 2- <<<"$answers") - <<'ANSWER'
1500|500
5400|5400
1.5s|1.500s
2026-11-27T10:00:00+01:00|2026-11-27T09:00:00Z
error|1
ANSWER
