#!/bin/sh
# module.sh - tests tools/python/ptxpack on the emulated driver, as GPUs of three kinds, two at a time, and compares
# its structures with those of the headers as the C compiler lays them out.
# Usage: module.sh [BUILD]
build=$(cd "${1:-build}" && pwd) || exit 1
cd "$(dirname "$0")/../.." || exit 1
if ! command -v python3 >/dev/null || ! python3 -c 'import ctypes, unittest' 2>/dev/null; then
    echo "SKIP: python3 with ctypes and unittest is not installed"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

export PTXPACK_LIBRARY="$build/libptxpack.so" PTXPACK_DRIVER="$build/libptxpack-emu.so"
export PTXPACK_PTXJIT="$PTXPACK_DRIVER" PTXPACK_CACHE_DIR="$work/cache" PTXPACK_EMU_DEVICES=2
export PTXPACK_NCCL="$build/emulated/libnccl.so.2" # for groups of processes, of one here
export PYTHONPATH="$PWD/tools/python" PYTHONDONTWRITEBYTECODE=1
unset PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_EMU_FAULT PTXPACK_DEVICE
PTXPACK_EMU_SM=90 python3 tests/python/module.py --print-c >"$work/layouts.c" || exit 1
${CC:-cc} -std=c11 -Ibuild/include/ptxpack "$work/layouts.c" -o "$work/layouts" || exit 1
"$work/layouts" >"$work/layouts.txt" || exit 1
for sm in 75 80 90; do
    PTXPACK_EMU_SM=$sm PTXPACK_LAYOUTS="$work/layouts.txt" python3 tests/python/module.py || exit 1
done
python3 -m ptxpack >"$work/info" && grep -q '^target  *sm_90' "$work/info" ||
    { echo "python3 -m ptxpack does not show the library and the devices"; exit 1; }
