#!/bin/sh
# frameworks.sh - numba-cuda runs on the emulated driver; CuPy's wheel, which contains NVIDIA's CUDA runtime, ends with a
# line that says why, and runs with the module that cupy_client.py describes.  The Python is $PTXPACK_TEST_PYTHON, else
# python3.
# Usage: frameworks.sh [BUILD]
build=${1:-build}
here=$(dirname "$0")
python=${PTXPACK_TEST_PYTHON:-python3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
if [ ! -f "$build/emulated/libcuda.so.1" ] || [ ! -f "$build/emulated/libcudart.so.13" ]; then
    echo "$build/emulated has not both libraries; make emulated-libcuda"
    exit 1
fi
LD_LIBRARY_PATH=$(readlink -f "$build/emulated")
export LD_LIBRARY_PATH PYTHONDONTWRITEBYTECODE=1 NUMBA_CACHE_DIR="$work/numba" CUPY_CACHE_DIR="$work/cupy"
unset PTXPACK_EMU_SM PTXPACK_EMU_FAULT PTXPACK_EMU_JUDGE PTXPACK_EMU_LOG PTXPACK_EMU_ERRORS
tried=0

if "$python" -c 'import numba.cuda, cuda.core' 2>/dev/null; then
    tried=1
    "$python" "$here/numba_client.py" || exit 1
    "$python" "$here/numba_client.py" race >"$work/race" 2>&1
    if ! grep -q '^numba-cuda: race is right' "$work/race" || ! grep -q '^ptxpack-emu: race: ' "$work/race"; then
        cat "$work/race"
        exit 1
    fi
fi

if "$python" -c 'import os, sys; sys.setdlopenflags(os.RTLD_LAZY); import cupy' 2>/dev/null; then
    tried=1
    export CUPY_COMPILE_WITH_PTX=1 CUPY_ACCELERATORS=
    module=$("$python" -c 'import importlib.util as u; print(u.find_spec("cupy_backends.cuda.api.runtime").origin)')
    if readelf -d "$module" | grep -q 'libcudart\.so\.13'; then
        "$python" "$here/cupy_client.py" || exit 1
    elif "$python" -c 'import cupy; cupy.arange(4)' >"$work/cupy.log" 2>&1; then
        echo "CuPy's wheel runs: tools/emu/README.md says that it does not"
        exit 1
    elif grep -q "^ptxpack-emu: this program contains NVIDIA's CUDA runtime" "$work/cupy.log"; then
        echo "CuPy: ends at NVIDIA's runtime, as documented"
    else
        cat "$work/cupy.log"
        exit 1
    fi
fi

if [ "$tried" = 0 ]; then
    echo "SKIP: emu/driver/frameworks: $python has neither numba-cuda nor CuPy; PTXPACK_TEST_PYTHON may name one that has"
    exit 77
fi
