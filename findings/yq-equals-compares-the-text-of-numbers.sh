#!/usr/bin/env bash
# github.com/mikefarah/yq/v4 4.54.3: == compares numbers by how they are written. 1 == 1.0 and 1e3 == 1000 are false,
# although >= and <= hold for the first pair, and "1" == 1 is true; unique keeps 1 and 1.0. Expected were numbers
# compared as numbers and no text equal to one, as in jq, whose syntax it takes (gojq 0.12.17 answers so).
# select(.replicas == 1) skips a document that says 1.0 and finds one that says "1". Whole numbers of JSON above 2^63
# lose digits without a word: 12345678901234567890 becomes 1.2345678901234567e+19.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export GOPATH="$folder/go" GOBIN="$folder" GOFLAGS="-modcacherw -trimpath"
go install github.com/mikefarah/yq/v4@v4.54.3 2>log
go install github.com/itchyny/gojq/cmd/gojq@v0.12.17 2>>log
answers=$(for rule in '1 == 1.0' '1 >= 1.0 and 1 <= 1.0' '1e3 == 1000' '"1" == 1' '[1, 1.0] | unique | length'; do
  echo "$rule|$(./yq -n "$rule")|$(./gojq -n "$rule")"
done
echo "id|$(./yq -p json '.id' <<<'{"id": 12345678901234567890}')|$(./gojq '.id' <<<'{"id": 12345678901234567890}')")
echo "expression, yq 4.54.3, gojq 0.12.17"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
1 == 1.0|false|true
1 >= 1.0 and 1 <= 1.0|true|true
1e3 == 1000|false|true
"1" == 1|true|false
[1, 1.0] | unique | length|2|1
id|1.2345678901234567e+19|12345678901234567890
ANSWER
