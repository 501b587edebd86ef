#!/bin/sh
# sample.sh - breaks kernels on purpose: the checks on the emulated driver must notice 98 of 100 of a fixed sample.
# Usage: sample.sh [BUILD].  mutate.py --help says how to run more of them.
build=$(cd "${1:-build}" && pwd) || exit 1
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "SKIP: mutate/sample: no python3"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
exec python3 tests/mutate/mutate.py --build "$build" --seed 1 --per-file 2 --small --seconds 110 attention/decode wgmma_softmax \
    wgmma_store transpose_v mma_softmax gemm/
