#!/usr/bin/env bash
# k8s.io/apimachinery 0.34.2: a strategic merge patch (the default of the Python and Go clients for Deployments) that
# adds a container puts it before the existing ones, as it does with new finalizers. Expected was the end of the list.
# The first container is the one that kubectl exec and logs take and that starts first: a sidecar that an operator adds
# by a patch takes this place. kubectl apply does not show it, since it sends $setElementOrder along.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/patches 2>log
go get k8s.io/apimachinery@v0.34.2 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

type Container struct {
	Name string `json:"name"`
}

// The tags are those of PodSpec and ObjectMeta.
type Pod struct {
	Containers []Container `json:"containers" patchStrategy:"merge" patchMergeKey:"name"`
	Finalizers []string    `json:"finalizers,omitempty" patchStrategy:"merge"`
}

func main() {
	pod := []byte(`{"containers":[{"name":"app"},{"name":"log"}],"finalizers":["a/old"]}`)
	for _, patch := range os.Args[1:] {
		result, err := strategicpatch.StrategicMergePatch(pod, []byte(patch), Pod{})
		if err != nil {
			panic(err)
		}
		fmt.Println(string(result))
	}
}
PROGRAM
go build -o patches . 2>>log
answers=$(./patches '{"containers":[{"name":"sidecar"}],"finalizers":["b/new"]}' \
  '{"containers":[{"name":"sidecar"}],"$setElementOrder/containers":[{"name":"app"},{"name":"log"},{"name":"sidecar"}]}')
echo "k8s.io/apimachinery 0.34.2, without and with \$setElementOrder:"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
{"containers":[{"name":"sidecar"},{"name":"app"},{"name":"log"}],"finalizers":["b/new","a/old"]}
{"containers":[{"name":"app"},{"name":"log"},{"name":"sidecar"}],"finalizers":["a/old"]}
ANSWER
