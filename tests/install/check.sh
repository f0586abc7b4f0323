#!/usr/bin/env bash
# A user's install: the wheel with no extras, with and without a C compiler, in fresh environments.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

install() { # name, wheel: a fresh environment that holds the wheel and the core dependencies
  "$python" -m venv "$work/$1"
  "$work/$1/bin/python" -m pip --quiet install --constraint constraints.txt "$2"
}

wheel() { # name, extra environment …: build a wheel from a clean copy of the sources
  local name=$1
  shift
  git -C . archive HEAD --prefix="$name/" | tar -x -C "$work"
  env "$@" .venv/bin/python -m pip --quiet wheel --no-deps --no-build-isolation \
    --wheel-dir "$work/wheel-$name" "$work/$name"
}

rows() { # bin: a classifier owner's afternoon, with the core dependencies alone
  local bin=$1 folder
  folder=$(mktemp -d -p "$work")
  cd "$folder"
  "$bin/python" - <<'PY'
import csv, random
random.seed(1)
rows = [(f"r{i}", f"text number {i} of {i % 7}", i % 2, f"u{i // 2}") for i in range(200)]
for name, noise in (("old", 0.9), ("new", 0.6)):
    with open(f"{name}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "label", "user", "score"])
        for row in rows:
            writer.writerow([*row, min(1, max(0, 0.5 + 0.3 * (row[2] - 0.5) + noise * (random.random() - 0.5)))])
PY
  printf '[[claim]]\nname = "ranks"\nslice = "all"\nscorer = "score"\nmetric = "roc_auc"\nrequire = "ci_low >= 0.5"\n' > claims.toml
  "$bin/eval-toolkit" score new.csv --group user --save run > /dev/null
  "$bin/eval-toolkit" compare old.csv new.csv --json > /dev/null
  "$bin/eval-toolkit" split new.csv --out parts --sizes train=0.5,test=0.5 --group user > /dev/null
  "$bin/eval-toolkit" check parts/train.csv parts/test.csv --group user --no-near > /dev/null
  "$bin/eval-toolkit" gate run --claims claims.toml > /dev/null
  "$bin/eval-toolkit" doctor run > /dev/null
  "$bin/eval-toolkit" report run --no-charts -o report.html > /dev/null
  if "$bin/eval-toolkit" report run -o charts.html 2> said > /dev/null; then false; fi
  grep -q "pip install 'eval-toolkit\[report\]'" said
  if "$bin/eval-toolkit" view . 2> said > /dev/null; then false; fi
  grep -q "pip install 'eval-toolkit\[view\]'" said
  cd - > /dev/null
}

answers() { # bin: a benchmark on a scripted model; a model that needs an extra names it
  local bin=$1 folder
  folder=$(mktemp -d -p "$work")
  cd "$folder"
  "$bin/eval-toolkit" tasks preview capitals --fewshot 2 > /dev/null
  "$bin/eval-toolkit" run capitals_open --model scripted:Paris --limit 2 --out run > /dev/null
  "$bin/eval-toolkit" run capitals_open --measure run --grader exact_match > /dev/null
  if "$bin/eval-toolkit" run capitals_open --model openai:m --base-url http://127.0.0.1:9/v1 \
    --no-store 2> said > /dev/null; then false; fi
  grep -q "pip install 'eval-toolkit\[llm\]'" said
  cd - > /dev/null
}

wheel with-compiler
wheel without-compiler CC=/bin/false
install native "$work"/wheel-with-compiler/*.whl
install fallback "$work"/wheel-without-compiler/*.whl

for environment in native fallback; do
  bin="$work/$environment/bin"
  backend=$(cd "$work" && "$bin/python" -c 'from eval_toolkit._internal import kernel; print(kernel.backend())')
  texts=$(cd "$work" && "$bin/python" -c 'from eval_toolkit._internal.kernel import neardup; print(neardup.backend())')
  test "$texts" = "$backend"
  echo "$environment: kernel back-end $backend"
  test "$backend" = "$([ $environment = native ] && echo native || echo numpy)"
  (cd "$work" && "$bin/eval-toolkit" demo --json > "$work/$environment.json")
  rows "$bin"
  answers "$bin"
  "$bin/python" - <<'PY'
import importlib.util
names = "pandas", "jsonschema", "pytest", "aiohttp", "zstandard", "fsspec", "openpyxl", "mlflow", "ray", "dask"
extras = [m for m in names if importlib.util.find_spec(m)]
assert not extras, f"the core install brought {extras}"
PY
done

# Other tools' logs, exports and what is said where an extra is missing, from an empty home.
.venv/bin/python -m tests.install.material "$work/material"
scripts=$PWD/tests/install
mkdir "$work/home"
for script in smoke.py missing.py; do
  (cd "$work/material" && HOME="$work/home" "$work/native/bin/python" -sE "$scripts/$script" core)
done

unzip -l "$work"/wheel-with-compiler/*.whl > "$work/content"
grep -q 'eval_toolkit/py.typed' "$work/content"
grep -q 'eval_toolkit/__init__.pyi' "$work/content"
grep -q '_native.abi3.so' "$work/content"
grep -q '_neardup.abi3.so' "$work/content"
grep -q 'eval_toolkit/schemas/results.v1.json' "$work/content"
grep -q 'eval_toolkit/tasks/builtin/capitals/test.jsonl' "$work/content"
grep -q 'eval_toolkit/tasks/definitions/gsm8k.toml' "$work/content"
! grep -qE 'tests/|benchmarks/|\.c$|\.h$' "$work/content"

# The two back-ends draw the same resamples: same numbers to rounding.
"$work/native/bin/python" - "$work/native.json" "$work/fallback.json" <<'PY'
import json, math, sys

a, b = (json.load(open(path)) for path in sys.argv[1:])

def compare(x, y, where="demo"):
    assert type(x) is type(y), where
    if isinstance(x, dict):
        assert x.keys() == y.keys(), where
        for key in x:
            compare(x[key], y[key], f"{where}.{key}")
    elif isinstance(x, list):
        assert len(x) == len(y), where
        for i, pair in enumerate(zip(x, y)):
            compare(*pair, f"{where}[{i}]")
    elif isinstance(x, float):
        assert math.isclose(x, y, rel_tol=1e-12, abs_tol=1e-12), (where, x, y)
    else:
        assert x == y, where

compare(a, b)
print("both back-ends print the same demo")
PY
