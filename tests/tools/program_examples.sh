#!/bin/sh
# program_examples.sh - tools/examples: each builds against the headers as they are installed, with a main.c of less
# than 60 lines; every kernel in PTX, and in CUDA C++ if there is NVRTC, is right on the emulated driver at ragged
# sizes, and the judge finds nothing in its launches; kernels that are broken on purpose are detected.
# Usage: program_examples.sh [BUILD]
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
examples=tools/examples emulated=$(readlink -f "$build/libptxpack-emu.so")
failed=0 ran=0 broken=0 skipped=

unset PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_EMU_FAULT PTXPACK_CACHE_DISABLE PTXPACK_FORBID_COMPILE
export PTXPACK_CACHE_DIR="$work/cache" PTXPACK_LINE_INFO=1
export PTXPACK_DRIVER="$emulated" PTXPACK_PTXJIT="$emulated"

fail() {
    echo "FAIL: $1"
    failed=$((failed + 1))
}

# ---- they build -------------------------------------------------------------------------------------
for name in vector_add mma_simple prefill_d128 flash_attention_2; do
    ${CC:-cc} -std=c11 -O2 -Wall -Wextra -Wpedantic -Wshadow -Werror -I"$build/include" \
        $examples/$name/main.c $examples/example.c "$build/public/libptxpack.a" -ldl -lpthread -lm \
        -o "$work/$name" || exit 1
    [ "$(wc -l <$examples/$name/main.c)" -lt 60 ] || fail "$name/main.c has 60 lines or more"
done

# ---- they are right ---------------------------------------------------------------------------------
# right PROGRAM KERNEL ARGUMENT...: KERNEL is a file of the example's folder
right() {
    program=$1 kernel=$2
    shift 2
    case $kernel in
    *.cu) [ -z "$skipped" ] || return 0 ;;
    esac
    "$work/$program" "$examples/$program/$kernel" "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ $status -eq 77 ] && grep -q '^SKIP: .*NVRTC' "$work/err" && [ "${kernel%.cu}" != "$kernel" ]; then
        skipped=$(sed 's/^SKIP: //' "$work/err")
        return 0
    fi
    ran=$((ran + 1))
    [ $status -eq 0 ] && [ ! -s "$work/err" ] && grep -q ': right ' "$work/out" ||
        fail "$program $kernel $* (sm_${PTXPACK_EMU_SM:-90}): status $status: $(cat "$work/out" "$work/err")"
}

# all SUFFIX: the kernels of one language
all() {
    for n in 1 7 8 2049 5003; do
        right vector_add half2.$1 $n
        right vector_add vectorised.$1 $n
        right vector_add packed_fma.$1 $n
    done
    right mma_simple mma_simple.$1 33 19 23
    right mma_simple mma_simple.$1 1 1 1
    right mma_simple mma_simple.$1 130 67 8
    right prefill_d128 prefill.$1 1 2 65 130
    right prefill_d128 prefill.$1 2 1 130 33
    right prefill_d128 prefill.$1 1 1 130 65 128 32 4 1
    right flash_attention_2 flash.$1 2 65 130
    right flash_attention_2 flash.$1 1 130 65 64
    right flash_attention_2 flash.$1 1 130 130 128 causal
    right flash_attention_2 flash.$1 2 100 70 64 causal
}
all ptx
all cu
export PTXPACK_EMU_SM=75
right vector_add packed_fma.ptx 2049
right vector_add packed_fma.cu 2049
right mma_simple mma_simple.ptx 33 19 23
right prefill_d128 prefill.ptx 1 1 65 65
right flash_attention_2 flash.ptx 1 65 65 64 causal
export PTXPACK_EMU_SM=80
right prefill_d128 prefill.ptx 1 1 65 65
right prefill_d128 prefill.cu 1 1 65 65
right flash_attention_2 flash.cu 1 65 65 64 causal
unset PTXPACK_EMU_SM
# The banners promise shared memory without bank conflicts; and copies may come as late as they can.
export PTXPACK_EMU_JUDGE=all,conflict PTXPACK_EMU_ASYNC=latest
for suffix in ptx cu; do
    right prefill_d128 prefill.$suffix 1 1 65 130
    right prefill_d128 prefill.$suffix 1 1 65 130 32 32 2 2
    right flash_attention_2 flash.$suffix 1 65 130
    right flash_attention_2 flash.$suffix 1 65 130 64
done
unset PTXPACK_EMU_JUDGE PTXPACK_EMU_ASYNC

# ---- the commands of the banners run, and both languages compute the same bits -------------------------
# banner FILE: runs its command; $sums are the checksums of the results
banner() {
    sed -n '/^\/\/   ptxpack /,/[^\\]$/p' "$1" | sed 's/^\/\/ *//' >"$work/banner"
    grep -q "^ptxpack [a-z]* $1 " "$work/banner" || fail "$1: the banner has no command, or one for another file"
    { sed '$d' "$work/banner" && tail -n 1 "$work/banner" | sed 's/$/ --json/'; } >"$work/command"
    PATH=$(readlink -f "$build"):$PATH sh "$work/command" >"$work/out" 2>"$work/err" && [ ! -s "$work/err" ] ||
        fail "$1: the command of the banner: exit status $?: $(cat "$work/err")"
    sums=$(grep '"checksum"' "$work/out")
    ran=$((ran + 1))
}
for file in "$examples"/*/*.ptx; do
    case $file in "$examples"/hooks/*) continue ;; esac # no kernels: tests/emu/rows/cookbook.c runs them
    banner "$file"
    [ -n "$sums" ] || fail "$file: the command of the banner prints no checksum"
    [ -z "$skipped" ] || continue
    of_ptx=$sums
    banner "${file%.ptx}.cu"
    [ "$sums" = "$of_ptx" ] || fail "$file and ${file%.ptx}.cu differ: $of_ptx, $sums"
done

# ---- a sweep finds how to divide the prefill ---------------------------------------------------------
# sweep FILE: its banner's command for some divisions; on the emulated driver the one that executes least is the first,
# and a division that is impossible is said to be.
sweep() {
    sed -n '/^\/\/   ptxpack /,/[^\\]$/p' "$1" | sed 's/^\/\/ *//' >"$work/banner"
    { sed '$d' "$work/banner" && tail -n 1 "$work/banner" |
        sed 's/$/ --sweep BLOCK_M=32,64 --sweep WARPS_M=1,2 --sweep WARPS_N=2,4/'; } >"$work/command"
    PATH=$(readlink -f "$build"):$PATH sh "$work/command" >"$work/out" 2>"$work/err" && [ ! -s "$work/err" ] ||
        fail "$1: a sweep: exit status $?: $(cat "$work/err")"
    awk '$1 ~ /^[0-9]+$/ && $4 != "failed:" { print $6 }' "$work/out" >"$work/executed"
    ran=$((ran + 1))
    [ "$(wc -l <"$work/executed")" -eq 6 ] && [ "$(grep -c 'failed: .*prefill: 4 warps copy' "$work/out")" -eq 2 ] &&
        grep -q '^ *64 *2 *4 ' "$work/out" || fail "$1: a sweep: $(cat "$work/out")"
}
sweep "$examples/prefill_d128/prefill.ptx"
[ -n "$skipped" ] || sweep "$examples/prefill_d128/prefill.cu"

# ---- what is wrong is found -------------------------------------------------------------------------
# wrong PROGRAM KERNEL PATTERN SCRIPT ARGUMENT...: KERNEL is edited by a sed script; the message matches PATTERN
wrong() {
    program=$1 kernel=$2 pattern=$3 script=$4
    shift 4
    case $kernel in
    *.cu) [ -z "$skipped" ] || return 0 ;;
    esac
    sed "$script" "$examples/$program/$kernel" >"$work/$kernel"
    if cmp -s "$examples/$program/$kernel" "$work/$kernel"; then
        fail "$program $kernel: $script changes nothing"
        return
    fi
    "$work/$program" "$work/$kernel" "$@" >"$work/out" 2>&1
    status=$?
    broken=$((broken + 1))
    [ $status -eq 1 ] && grep -q "$pattern" "$work/out" ||
        fail "$program $kernel, broken by $script: exit status $status: $(head -n 3 "$work/out")"
}
wrong vector_add half2.ptx WRONG 's/add.rn.f16x2       %xs, %xs, %c/add.rn.f16x2       %xs, %xs, %ys/' 5003
wrong vector_add half2.ptx 'illegal address' 's/setp.eq.u32        %single/setp.gt.u32        %single/' 7
wrong vector_add vectorised.ptx WRONG 's/ELEMENT            %x_upper, %y_upper/ELEMENT %x_upper, %yh/' 5003
wrong vector_add packed_fma.ptx 'illegal address' 's/%part, %n, 8/%part, %n, 7/' 15
wrong vector_add packed_fma.cu 'illegal address' 's/n - first < 8/n - first < 7/' 15
wrong mma_simple mma_simple.ptx WRONG 's/%a1, %a_lower, 0/%a1, %a_upper, 0/' 33 19 23
wrong mma_simple mma_simple.cu WRONG 's/column + g, n, right, k/column + g, n, left, k/' 33 19 23
wrong prefill_d128 prefill.ptx race 's/bar.sync           0; .*P and V.*//' 1 1 65 130
wrong mma_simple mma_simple.ptx race 's/rem.u32            %wm, %warp/rem.u32            %wm, %lane/' 130 67 8
wrong mma_simple mma_simple.cu WRONG 's/column + 8 . WARPS_N . j + g, n, left/column + 8 * j + g, n, left/' 130 67 8
wrong prefill_d128 prefill.ptx WRONG 's/MASK_ROW .*KEY_TILES, 1, %sees//' 1 1 65 65
wrong prefill_d128 prefill.ptx WRONG 's/LANES              .op, .x..r., WARPS_N//' 1 1 65 130 64 64 2 2
wrong prefill_d128 prefill.cu race 's/__syncthreads(); .. P and V.*//' 1 1 65 130
wrong flash_attention_2 flash.ptx WRONG 's/mul.f32            %l\\h, %l\\h, %factor;//' 1 65 130
wrong flash_attention_2 flash.ptx WRONG 's/%row, \\\[8.\\h+1\]/%row, \\[8*\\h+2]/' 1 65 65 64 causal
wrong flash_attention_2 flash.ptx 'async\|race\|uninitialised' \
    '/^COPIED/,/^ *bar.sync/s/COPY_WAIT          0/COPY_WAIT 1/' 1 65 130
wrong flash_attention_2 flash.cu WRONG 's/l \*= factor;//' 1 65 130
wrong flash_attention_2 flash.ptx race 's/bar.warp.sync      -1;//' 1 65 130
wrong flash_attention_2 flash.cu race 's/__syncwarp();//' 1 65 130
wrong flash_attention_2 flash.ptx 'WRONG\|illegal address' 's/setp.gt.s32        %exists, %left, .*pass.;/setp.gt.s32 %exists, %left, -64;/' 1 65 130

# ---- unknown arguments are reported --------------------------------------------------------------
# refused STATUS PATTERN PROGRAM ARGUMENT...
refused() {
    want=$1 pattern=$2 program=$3
    shift 3
    "$work/$program" "$@" >"$work/out" 2>&1
    status=$?
    [ $status -eq "$want" ] && [ "$(wc -l <"$work/out")" -eq 1 ] && grep -q "$pattern" "$work/out" ||
        fail "$program $*: exit status $status: $(cat "$work/out")"
}
refused 2 '^usage: ' vector_add
refused 2 'no number from 1 to' vector_add $examples/vector_add/half2.ptx 0
refused 2 'no number from 1 to' mma_simple $examples/mma_simple/mma_simple.ptx 5x
refused 1 'nothing.ptx' vector_add $examples/vector_add/nothing.ptx
refused 1 'flash.ptx:[0-9]*: flash: HEAD_DIM is 64 or 128' flash_attention_2 \
    $examples/flash_attention_2/flash.ptx 1 8 8 96

refused 1 'prefill.ptx:[0-9]*: prefill: a warp has a multiple of 16 rows' prefill_d128 \
    $examples/prefill_d128/prefill.ptx 1 1 8 8 64 64 3

[ -z "$skipped" ] || echo "SKIP: program_examples: the kernels in CUDA C++: $skipped"
echo "$ran runs, $broken broken kernels, $failed failures"
[ $failed -eq 0 ] && [ $ran -ge 30 ] && [ $broken -ge 9 ]
