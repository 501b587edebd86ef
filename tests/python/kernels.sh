#!/bin/sh
# kernels.sh - ptxpack.kernel on the emulated driver: macro PTX, and CUDA C++ where there is an NVRTC.
# Usage: kernels.sh [BUILD]
build=$(cd "${1:-build}" && pwd) || exit 1
cd "$(dirname "$0")/../.." || exit 1
if ! command -v python3 >/dev/null || ! python3 -c 'import ctypes, unittest' 2>/dev/null; then
    echo "SKIP: python/kernels: no python3 with ctypes and unittest"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_EMU_FAULT PTXPACK_PTXJIT
export PTXPACK_LIBRARY="$build/libptxpack.so" PTXPACK_DEVICE=emu PTXPACK_CACHE_DIR="$work/cache"
export PTXPACK_DRIVER="$build/libptxpack-emu.so" PTXPACK_EMU_DEVICES=2 PTXPACK_EMU_SM=90
export PYTHONPATH="$PWD/tools/python" PYTHONDONTWRITEBYTECODE=1
sed -n '/^```ptx$/,/^```$/p' README.md | sed '1d;$d' >"$work/scale.ptx"
sed -n '/^```cuda$/,/^```$/p' README.md | sed '1d;$d' >"$work/scale.cu"
PTXPACK_TEST_FOLDER="$work" exec python3 tests/python/kernels.py
