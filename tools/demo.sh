#!/bin/sh
# demo.sh PTXPACK - attention on random input, verified: first with an empty cache, then again, warm from disk.
# Without a GPU the command computes on the CPU and says so.
ptxpack=$1
cache=$(mktemp -d) || exit 1
trap 'rm -rf "$cache"' EXIT INT TERM
export PTXPACK_CACHE_DIR="$cache/ptxpack"
problem="--batch 2 --seqlen-q 1024 --heads-q 16 --heads-kv 4 --head-dim 128 --causal --dtype bf16 --seed 1 --verify --cpu"

echo "== attention, with an empty cache: the kernel is compiled from PTX now"
# shellcheck disable=SC2086
first=$("$ptxpack" attention $problem)
status=$?
echo "$first"
[ $status -eq 0 ] || exit $status
case $first in
*"no GPU:"*)
    echo
    echo "There is no GPU here, so nothing was compiled or cached: what you saw is the CPU reference."
    exit 0
    ;;
esac
echo
echo "== the same again in a new process: the kernel comes warm from the cache"
# shellcheck disable=SC2086
"$ptxpack" attention $problem
