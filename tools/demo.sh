#!/bin/sh
# demo.sh PTXPACK - attention on random input, verified: first with an empty cache, then again, warm from disk.
# Without a GPU the same kernels run on the emulated driver, on a smaller problem, and it says so.
ptxpack=$1
cache=$(mktemp -d) || exit 1
trap 'rm -rf "$cache"' EXIT INT TERM
export PTXPACK_CACHE_DIR="$cache/ptxpack"
shape="--heads-kv 4 --head-dim 128 --causal --dtype bf16 --seed 1 --verify"

if "$ptxpack" vector-add --n 1 --device gpu >/dev/null 2>"$cache/why"; then
    problem="--batch 2 --seqlen-q 1024 --heads-q 16 $shape"
else
    echo "No GPU: $(sed 's/^ptxpack[^:]*: //' "$cache/why")"
    echo "The kernels run on the emulated driver: every instruction is executed, and judged, on the CPU."
    echo
    problem="--device emu --batch 1 --seqlen-q 256 --heads-q 8 $shape"
fi

echo "== attention, with an empty cache: the kernel is compiled from PTX now"
# shellcheck disable=SC2086
"$ptxpack" attention $problem || exit $?
echo
echo "== the same again in a new process: the kernel comes warm from the cache"
# shellcheck disable=SC2086
"$ptxpack" attention $problem
