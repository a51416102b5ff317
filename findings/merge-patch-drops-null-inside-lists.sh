#!/usr/bin/env bash
# gopkg.in/evanphx/json-patch.v4 4.12.0 (the merge patch of Kubernetes' API server): a null in an object inside a list is
# dropped. {"env": [{"name": "A", "value": null}]} as a merge patch stores [{"name": "A"}]. RFC 7396 gives null a meaning
# only where a patch descends into objects; a list replaces the old value as it is, and the npm package json-merge-patch
# 1.0.2 keeps the null. Expected was the list as it was sent. A null directly in a list is kept, in both. A field that is
# declared nullable in a list of a custom resource cannot be set to null by a merge patch, but by a PUT.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit json-merge-patch@1.0.2 >log
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/patches 2>>log
go get gopkg.in/evanphx/json-patch.v4@v4.12.0 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"fmt"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

func main() {
	for _, patch := range os.Args[1:] {
		result, err := jsonpatch.MergePatch([]byte(`{"env":[],"old":1}`), []byte(patch))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(result))
	}
}
PROGRAM
go build -o patches . 2>>log
cat >patches.cjs <<'PROGRAM'
const { apply } = require('json-merge-patch');
for (const patch of process.argv.slice(2)) console.log(JSON.stringify(apply({ env: [], old: 1 }, JSON.parse(patch))));
PROGRAM
patches=('{"env":[{"name":"A","value":null}],"old":null}' '{"env":[null]}')
echo "patch | json-patch.v4 4.12.0 | json-merge-patch 1.0.2"
answers=$(paste -d '|' <(printf '%s\n' "${patches[@]}") <(./patches "${patches[@]}") <(node patches.cjs "${patches[@]}"))
echo "$answers"
diff <(cut -d '|' -f 2- <<<"$answers") - <<'ANSWER'
{"env":[{"name":"A"}]}|{"env":[{"name":"A","value":null}]}
{"env":[null],"old":1}|{"env":[null],"old":1}
ANSWER
