#!/usr/bin/env bash
# The tests of the C kernels under the address and undefined-behaviour sanitizers of gcc, on a copy
# of the package in build/sanitize: the first wrong access ends the run.
set -euo pipefail
cd "$(dirname "$0")/../.."
cc=${CC:-gcc}
python=${PYTHON:-.venv/bin/python}
copy=build/sanitize

missing() { # what: CI fails, others are told
  echo "make sanitize needs $1: run 'apt-get install gcc libc6-dev' (Debian's gcc brings its sanitizers)"
  if [ "${CI:-}" = true ]; then exit 1; else exit 0; fi
}

command -v "$cc" > /dev/null || missing "$cc"
asan=$("$cc" -print-file-name=libasan.so)
for library in libasan libubsan; do # a name without a folder: not found
  case $("$cc" -print-file-name=$library.so) in /*) ;; *) missing "$library of $cc" ;; esac
done

rm -rf "$copy"
mkdir -p "$copy"
cp -r src/eval_toolkit "$copy/eval_toolkit"
rm -f "$copy"/eval_toolkit/_internal/kernel/*.so
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
for kernel in native neardup; do
  "$cc" -shared -fPIC -std=c11 -O2 -g -ffp-contract=off -fno-omit-frame-pointer -Wall -Werror \
    -fsanitize=address,undefined -fno-sanitize-recover=all -DPy_LIMITED_API=0x030B0000 \
    -I"$include" "src/eval_toolkit/_internal/kernel/$kernel.c" -o "$copy/eval_toolkit/_internal/kernel/_$kernel.abi3.so"
done

export PYTHONPATH=$copy PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1
export ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
LD_PRELOAD=$asan "$python" -c '
from eval_toolkit._internal.kernel import _native, _neardup
assert all("build/sanitize" in kernel.__file__ for kernel in (_native, _neardup))
'
LD_PRELOAD=$asan "$python" -m pytest -q -p no:cacheprovider -p no:randomly -k "not numpy" \
  tests/unit/_internal/kernel/test_kernel.py tests/unit/_internal/kernel/test_arrays.py tests/unit/_internal/kernel/test_neardup.py \
  tests/properties/test_text_dedup_properties.py \
  tests/properties/test_engine_properties.py::test_both_kernels_agree \
  tests/properties/test_engine_properties.py::test_rank_order_sorts_and_is_unique "$@"
