#!/usr/bin/env bash
# io.fabric8:kubernetes-model-core 8.0.0 (the Kubernetes client for Java): Duration.parse drops what stands before the
# point of a fraction, and the sign. "0.5s" is five seconds, "1.5h" five hours, "1.500s" eight minutes and twenty
# seconds, and "1m30.5s", as Kubernetes itself writes 90.5 s, is 65 s. Expected was what time.ParseDuration of Go
# returns, by which Kubernetes reads its durations, or an error. k8s.io/kube-openapi f3f2b991d03b (the API server's
# format "duration") has the same fault for its own units only: "1.5d" is five days (its issue 523).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >pom.xml <<'PROJECT'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.example</groupId>
  <artifactId>durations</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.fabric8</groupId>
      <artifactId>kubernetes-model-core</artifactId>
      <version>8.0.0</version>
    </dependency>
  </dependencies>
</project>
PROJECT
mvn -q -B -Dmaven.repo.local="$folder/m2" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
  -DoutputDirectory="$folder/jars" >mvn.log 2>&1
cat >Durations.java <<'PROGRAM'
import io.fabric8.kubernetes.api.model.Duration;

class Durations {
    public static void main(String[] texts) throws Exception {
        for (String text : texts) {
            System.out.println(Duration.parse(text).getDuration());
        }
    }
}
PROGRAM
javac -cp 'jars/*' Durations.java
export GOPATH="$folder/go" GOFLAGS="-mod=mod -modcacherw -trimpath"
go mod init example.org/durations 2>log
go get k8s.io/kube-openapi@v0.0.0-20250710124328-f3f2b991d03b 2>>log
cat >main.go <<'PROGRAM'
package main

import (
	"fmt"
	"os"
	"time"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

func main() {
	for _, text := range os.Args[1:] {
		format, err := strfmt.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		if duration, err := time.ParseDuration(text); err == nil {
			fmt.Println(duration, format)
		} else {
			fmt.Println("error", format)
		}
	}
}
PROGRAM
go mod tidy 2>>log
go build -o durations . 2>>log
texts=(90m 0.5s 1.5h 1.500s 1m30.5s -5s 1.5d)
answers=$(paste -d ' ' <(printf '%s\n' "${texts[@]}") <(java -cp 'jars/*:.' Durations "${texts[@]}") <(./durations "${texts[@]}"))
echo "text, fabric8 8.0.0, Go, kube-openapi f3f2b991d03b"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
90m PT1H30M 1h30m0s 1h30m0s
0.5s PT5S 500ms 500ms
1.5h PT5H 1h30m0s 1h30m0s
1.500s PT8M20S 1.5s 1.5s
1m30.5s PT1M5S 1m30.5s 1m30.5s
-5s PT5S -5s -5s
1.5d PT120H error 120h0m0s
ANSWER
