#!/usr/bin/env bash
# cel-python 0.5.0: string() cuts the fraction off durations and timestamps and writes true as "True". The project of CEL
# itself (cel-expr-python 0.1.3, the C++ implementation) writes "1.500s", "2026-11-27T00:00:00.500Z" and "true".
# Expected was the same text from both. A deduplication key or a label made by such an expression is equal for instants
# that differ by up to a second, and a rule that compares string(x) with "true" never matches.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install cel-python==0.5.0 cel-expr-python==0.1.3
"$folder/venv/bin/python" - <<'PROGRAM'
import celpy
from cel_expr_python import cel

expected = {
    "string(duration('1.5s'))": ("1s", "1.500s"),
    "string(timestamp('2026-11-27T00:00:00.5Z'))": ("2026-11-27T00:00:00Z", "2026-11-27T00:00:00.500Z"),
    "string(1 < 2)": ("True", "true"),
}
pure, native = celpy.Environment(), cel.NewEnv(variables={})
for expression, texts in expected.items():
    here = str(pure.program(pure.compile(expression)).evaluate({}))
    there = native.compile(expression).eval(data={}).value()
    print(f"{expression}: cel-python 0.5.0 {here!r}, cel-expr-python 0.1.3 {there!r}")
    assert (here, there) == texts
PROGRAM
