#!/usr/bin/env bash
# The wheel with each extra in an environment of its own, from an empty home.
#   tests/install/extras.sh [EXTRA]…   core, an extra, or one with packages beside it: hf+torch
# By default all of pyproject.toml. WHEEL=file takes a wheel that is there instead of building one.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
extras=${*:-core+pytest $(.venv/bin/python -c \
  'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"])')}
settings=${PIP_CONFIG_FILE:-${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf}

if [ -z "${WHEEL:-}" ]; then
  git archive HEAD --prefix=source/ | tar -x -C "$work"
  .venv/bin/python -m pip --quiet wheel --no-deps --no-build-isolation \
    --wheel-dir "$work/wheel" "$work/source"
  WHEEL=$(echo "$work"/wheel/*.whl)
fi
.venv/bin/python -m tests.install.material "$work/material"

install() { # environment, wheel with its extra, packages beside it …
  "$python" -m venv "$1" &&
    "$1/bin/python" -m pip --quiet install --no-compile --constraint constraints.txt "${@:2}"
}

smoke() { # environment, folder of the scripts, extra: in a folder with the material alone; pip is told which index to ask
  cp -r "$work/material" "$1/here" && mkdir "$1/home" && cd "$1/here" || return
  export HOME=$1/home
  unset PYTHONPATH XDG_CACHE_HOME XDG_CONFIG_HOME EVAL_TOOLKIT_CACHE
  if [ -f "$settings" ]; then export PIP_CONFIG_FILE=$settings; fi
  "$1/bin/python" -sE "$2/smoke.py" "$3" &&
    "$1/bin/python" -sE "$2/missing.py"
}

failed=0
printf '%-12s %8s %9s %7s  %s\n' extra packages 'install s' 'smoke s' result
for name in $extras; do
  extra=${name%%+*}
  beside=${name#"$extra"}
  wanted=$WHEEL
  if [ "$extra" != core ]; then wanted="$WHEEL[$extra]"; fi
  result=ok packages=- started=$SECONDS installed=$SECONDS
  # shellcheck disable=SC2086 # the packages beside it are words
  if install "$work/$name" "$wanted" ${beside//+/ } > "$work/said" 2>&1; then
    packages=$("$work/$name/bin/python" -m pip list --format=freeze | grep -cvE '^(pip|setuptools|eval-toolkit)=')
    installed=$SECONDS
    (smoke "$work/$name" "$PWD/tests/install" "$extra") > "$work/said" 2>&1 || result='smoke failed'
  else
    result='install failed' installed=$SECONDS
  fi
  printf '%-12s %8s %9s %7s  %s\n' \
    "$name" "$packages" $((installed - started)) $((SECONDS - installed)) "$result"
  if [ "$result" != ok ]; then
    failed=1
    cat "$work/said"
  fi
  rm -rf "${work:?}/$name"
done
exit $failed
