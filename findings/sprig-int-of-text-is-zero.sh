#!/usr/bin/env bash
# Masterminds/sprig 3.3.0 (the functions of Helm's templates): int of a text is 0 without an error if it is no Go integer
# literal: "08" and "1e3" are 0, "010" is 8 (octal) and "1_000" is 1000, while atoi "08" is 8 and float64 "1e3" is
# 1000. Expected was 8 and 1000, or an error. A chart that says replicas: {{ int .Values.replicas }} scales to zero
# with --set-string replicas=08 or with a value that another tool wrote as 1e3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/templates 2>log
go get github.com/Masterminds/sprig/v3@v3.3.0 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"fmt"
	"os"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

func main() {
	for _, text := range os.Args[1:] {
		fmt.Printf("%s = ", text)
		page := template.Must(template.New("page").Funcs(sprig.TxtFuncMap()).Parse("{{ " + text + " }}\n"))
		if err := page.Execute(os.Stdout, nil); err != nil {
			panic(err)
		}
	}
}
PROGRAM
go build -o templates . 2>>log
answers=$(./templates 'int "8"' 'int "08"' 'int "010"' 'int "1e3"' 'int "2.0"' 'int "1_000"' 'atoi "08"' 'float64 "1e3"' 'int 2.0')
echo "sprig 3.3.0"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
int "8" = 8
int "08" = 0
int "010" = 8
int "1e3" = 0
int "2.0" = 2
int "1_000" = 1000
atoi "08" = 8
float64 "1e3" = 1000
int 2.0 = 2
ANSWER
