#!/bin/sh
# devices.sh - ptxpack attention --devices on emulated GPUs: results are verified, and what cannot be is refused.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export PTXPACK_CACHE_DIR="$work/cache" PTXPACK_EMU_DEVICES=3 PTXPACK_EMU_SM=80
failed=0

# expect STATUS WORDS OPTION...
expect() {
    want=$1 words=$2
    shift 2
    build/ptxpack attention --device emu --batch 1 --heads-q 2 --head-dim 64 --seqlen-q 90 --seed 5 "$@" >"$work/out" 2>&1
    status=$?
    [ $status = "$want" ] && grep -q -e "$words" "$work/out" && return
    echo "FAIL: $*: status $status, and not \"$words\":"
    cat "$work/out"
    failed=1
}

expect 0 'verified  correct: 180 of 180 rows' --devices 3 --causal --verify
expect 0 'verified  correct: 180 of 180 rows' --devices 2 --window 20,5 --sinks 0.5,-1 --verify
expect 0 'verified  correct: 180 of 180 rows' --devices 1 --dtype bf16 --verify
expect 0 'verified  correct: 180 of 180 rows' --devices 2 --causal --way heads --verify
expect 0 'verified  correct: 180 of 180 rows' --devices 2 --causal --alibi --chunk 40 --verify
expect 2 'heads_kv 2 is not a multiple of the 3 ranks' --devices 3 --way heads
expect 2 '"ring" is none of gather, steps, heads and arrive' --devices 2 --way ring
expect 2 'way: without --devices' --way heads
expect 1 'device 3: the driver sees 3, numbered from 0' --devices 4
expect 2 'PTXPACK_ALIBI needs a mask without keys behind a row' --devices 2 --alibi
expect 2 'attention.options 0x4000000: only PTXPACK_SINKS and PTXPACK_ALIBI' --devices 2 --unnormalized
expect 2 'devices: 0 is not between 1 and 64' --devices 0
exit $failed
