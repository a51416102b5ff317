#!/usr/bin/env bash
# cel-python 0.5.0: a floating-point division by zero is always plus infinity, also -1.0 / 0.0 and 0.0 / 0.0. IEEE 754,
# which CEL's specification names, and CEL's own implementation (cel-expr-python 0.1.3) give minus infinity and NaN.
# Expected was the same. The rule double(failed) / double(total) > 0.5 is true for a queue that has had no items.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install cel-python==0.5.0 cel-expr-python==0.1.3
"$folder/venv/bin/python" - <<'PROGRAM'
import celpy
from cel_expr_python import cel

expected = {
    "1.0 / 0.0": ("inf", "inf"),
    "-1.0 / 0.0": ("inf", "-inf"),
    "0.0 / 0.0": ("inf", "nan"),
    "0.0 / 0.0 > 0.5": ("True", "False"),
}
pure, native = celpy.Environment(), cel.NewEnv(variables={})
for expression, texts in expected.items():
    here = pure.program(pure.compile(expression)).evaluate({})
    here = str(bool(here)) if isinstance(here, celpy.celtypes.BoolType) else str(float(here))
    there = str(native.compile(expression).eval(data={}).value())
    print(f"{expression}: cel-python 0.5.0 {here}, cel-expr-python 0.1.3 {there}")
    assert (here, there) == texts, (here, there)
PROGRAM
