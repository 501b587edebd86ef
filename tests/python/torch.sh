#!/bin/sh
# torch.sh - ptxpack.torch with the real PyTorch on the CPU: PyTorch's own checks of an operator, torch.compile, and values from the
# emulated driver.  The Python is $PTXPACK_TEST_PYTHON, else python3.
# Usage: torch.sh [BUILD]
build=$(cd "${1:-build}" && pwd) || exit 1
cd "$(dirname "$0")/../.." || exit 1
python=${PTXPACK_TEST_PYTHON:-python3}
if ! "$python" -c 'import torch; torch.library.custom_op' 2>/dev/null; then
    echo "SKIP: python/torch: $python has no PyTorch of 2.4 or later; PTXPACK_TEST_PYTHON may name one that has"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_DRIVER PTXPACK_PTXJIT PTXPACK_EMU_FAULT
export PTXPACK_LIBRARY="$build/libptxpack.so" PTXPACK_DEVICE=emu PTXPACK_CACHE_DIR="$work/cache"
export PYTHONPATH="$PWD/tools/python" PYTHONDONTWRITEBYTECODE=1 TORCHINDUCTOR_CACHE_DIR="$work/inductor"
export TORCHINDUCTOR_COMPILE_THREADS=1 # its pool of processes is slow to start on a busy machine
export PTXPACK_FAKE_DRIVER="$build/tests/fake_driver.so" PTXPACK_FAKE_PTXJIT="$build/tests/fake_ptxjit.so"
"$python" tests/python/torch_operator.py
