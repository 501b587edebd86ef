#!/bin/sh
# parallel_simulation.sh - tools/bench/parallel/simulation.py: its schedule is the library's, its times have the right limits,
# it reads what `ptxpack bench parallel --json` prints, and what is wrong with its input is one line.
# Usage: parallel_simulation.sh [BUILD]
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
if ! python3 -c 'import argparse, json' 2>/dev/null; then
    echo "SKIP: no python3: the simulation of several GPUs did not run"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset PTXPACK_DRIVER PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_EMU_FAULT PTXPACK_CACHE_DISABLE PTXPACK_FORBID_COMPILE
export PTXPACK_CACHE_DIR="$work/cache" PYTHONDONTWRITEBYTECODE=1
PTXPACK_DEVICE=emu PTXPACK_EMU_SM=90 PTXPACK_EMU_DEVICES=2 "$build/ptxpack" bench parallel --json --rounds 1 --seqlen 40 \
    --causal yes --keys 10 --heads 2,1 --head-dim 64 >"$work/bench.json" || exit 1
python3 tests/tools/parallel_simulation.py "$build/ptxpack" "$work"
