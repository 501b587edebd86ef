#!/bin/sh
# torch_parallel.sh - ptxpack.torch.context_parallel with the real PyTorch: processes of a gloo group, each with its emulated
# devices, and the emulated NCCL.  The Python is $PTXPACK_TEST_PYTHON, else python3.
# Usage: torch_parallel.sh [BUILD]
build=$(cd "${1:-build}" && pwd) || exit 1
cd "$(dirname "$0")/../.." || exit 1
python=${PTXPACK_TEST_PYTHON:-python3}
if ! "$python" -c 'import torch; torch.library.custom_op; assert torch.distributed.is_gloo_available()' 2>/dev/null; then
    echo "SKIP: python/torch_parallel: $python has no PyTorch of 2.4 or later with gloo; PTXPACK_TEST_PYTHON may name one that has"
    exit 77
fi
[ -e "$build/emulated/libnccl.so.2" ] || { echo "$build/emulated/libnccl.so.2 is missing: make emulated-libcuda"; exit 1; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_DRIVER PTXPACK_PTXJIT PTXPACK_EMU_FAULT PTXPACK_EMU_NCCL_FAULT
export PTXPACK_LIBRARY="$build/libptxpack.so" PTXPACK_DEVICE=emu PTXPACK_CACHE_DIR="$work/cache"
export PTXPACK_EMU_SM=90 PTXPACK_EMU_DEVICES=2 PTXPACK_NCCL="$build/emulated/libnccl.so.2"
export PYTHONPATH="$PWD/tools/python" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
"$python" tests/python/torch_parallel.py
