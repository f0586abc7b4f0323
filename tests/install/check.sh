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

wheel with-compiler
wheel without-compiler CC=/bin/false
install native "$work"/wheel-with-compiler/*.whl
install fallback "$work"/wheel-without-compiler/*.whl

for environment in native fallback; do
  bin="$work/$environment/bin"
  backend=$(cd "$work" && "$bin/python" -c 'from eval_toolkit import _kernel; print(_kernel.backend())')
  texts=$(cd "$work" && "$bin/python" -c 'from eval_toolkit._kernel import neardup; print(neardup.backend())')
  test "$texts" = "$backend"
  echo "$environment: kernel back-end $backend"
  test "$backend" = "$([ $environment = native ] && echo native || echo numpy)"
  (cd "$work" && "$bin/eval-toolkit" demo --json > "$work/$environment.json")
  "$bin/python" - <<'PY'
import importlib.util
extras = [m for m in ("pandas", "jsonschema", "pytest") if importlib.util.find_spec(m)]
assert not extras, f"the core install brought {extras}"
PY
done

unzip -l "$work"/wheel-with-compiler/*.whl > "$work/content"
grep -q 'eval_toolkit/py.typed' "$work/content"
grep -q 'eval_toolkit/__init__.pyi' "$work/content"
grep -q '_native.abi3.so' "$work/content"
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
