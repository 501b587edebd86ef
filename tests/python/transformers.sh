#!/bin/sh
# transformers.sh - ptxpack.transformers with the real models of Hugging Face transformers, tiny and with random weights, on the
# emulated driver, or with PTXPACK_DEVICE=gpu on a GPU.  The Python is $PTXPACK_TEST_PYTHON, else python3.
# Usage: transformers.sh [BUILD]
build=$(cd "${1:-build}" && pwd) || exit 1
cd "$(dirname "$0")/../.." || exit 1
python=${PTXPACK_TEST_PYTHON:-python3}
if ! "$python" -c 'import torch; torch.library.custom_op; import transformers as t; assert tuple(map(int, t.__version__.split(".")[:2])) >= (4, 57)' 2>/dev/null; then
    echo "SKIP: python/transformers: $python has no PyTorch of 2.4 or later with transformers of 4.57 or later; PTXPACK_TEST_PYTHON may name one that has"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_DRIVER PTXPACK_PTXJIT PTXPACK_EMU_FAULT
export PTXPACK_LIBRARY="$build/libptxpack.so" PTXPACK_CACHE_DIR="$work/cache" PTXPACK_DEVICE="${PTXPACK_DEVICE:-emu}"
export PYTHONPATH="$PWD/tools/python" PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$python" tests/python/transformers/masks.py || exit 1
"$python" tests/python/transformers/models.py
