#!/bin/sh
# numpy.sh - from_numpy, Tensor.numpy and numpy.asarray with the real NumPy on the emulated driver, with ml_dtypes and without;
# attention of sequences with lengths of their own, appends and merges; and the Python programs of README.md.  NumPy is python3's, else pip fetches it into an environment for this test.
# Usage: numpy.sh [BUILD]
build=$(cd "${1:-build}" && pwd) || exit 1
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
python=python3
if ! python3 -c 'import numpy, ml_dtypes' 2>/dev/null; then
    python=$work/environment/bin/python
    if ! { python3 -m venv "$work/environment" && "$python" -m pip install -q --retries 0 --timeout 20 numpy ml_dtypes; } \
        >"$work/log" 2>&1; then
        echo "SKIP: python/numpy: NumPy and ml_dtypes are not installed, and pip cannot fetch them"
        exit 77
    fi
fi
unset PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_DRIVER PTXPACK_PTXJIT PTXPACK_EMU_FAULT
export PTXPACK_LIBRARY="$build/libptxpack.so" PTXPACK_DEVICE=emu PTXPACK_CACHE_DIR="$work/cache"
export PYTHONPATH="$PWD/tools/python" PYTHONDONTWRITEBYTECODE=1
"$python" tests/python/host_arrays.py || exit 1
WITHOUT_ML_DTYPES=1 "$python" tests/python/host_arrays.py || exit 1
for sm in 80 90; do
    PTXPACK_EMU_SM=$sm "$python" tests/python/lengths.py || exit 1
    PTXPACK_EMU_SM=$sm "$python" tests/python/append.py || exit 1
done
sed -n '/^```python$/,/^```$/p' README.md | grep -v '^```' >"$work/readme.py"
sed -n '/^```ptx$/,/^```$/p' README.md | sed '1d;$d' >"$work/scale.ptx"
cd "$work" || exit 1
[ "$("$python" readme.py)" = "$(printf '(1, 128, 4, 64)\n2000.0')" ] || { echo "the Python programs of README.md fail"; exit 1; }
