#!/bin/sh
# programs.sh - a program of CUDA C++, built by nvcc with the shared runtime, runs on the emulated one; what cannot run
# says why: a program with NVIDIA's static runtime, and one without PTX.
# Usage: programs.sh [BUILD]
build=${1:-build}
source=$(dirname "$0")/program.cu
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() {
    echo "emu/runtime/programs: $1"
    [ -z "$2" ] || cat "$2"
    exit 1
}
[ -x "${NVCC:=/usr/local/cuda/bin/nvcc}" ] || NVCC=$(command -v nvcc)
case $("$NVCC" --version 2>/dev/null) in
*'release 13.'*) ;;
*)
    echo "SKIP: emu/runtime/programs: there is no nvcc 13; NVCC may name one"
    exit 77
    ;;
esac
[ -f "$build/emulated/libcudart.so.13" ] || fail "$build/emulated/libcudart.so.13 is missing"
LD_LIBRARY_PATH=$(readlink -f "$build/emulated")
export LD_LIBRARY_PATH
unset PTXPACK_EMU_SM PTXPACK_EMU_FAULT PTXPACK_EMU_JUDGE PTXPACK_EMU_LOG PTXPACK_EMU_ERRORS PTXPACK_EMU_MEMORY
ptx='-gencode arch=compute_90,code=compute_90' # clusters need it

cat >"$work/expected" <<'END'
device: ptxpack emulated GPU (sm_90) of 1, sm_90, warps of 32, blocks of 1024, 4096 MiB
vectors: sum 501500 of 1000 threads
managed: 8
cooperative: sum 8128
graphs: 3 4 5 6 7 8, 7; clusters: 0 1 0 1
handles: 201 201 1
errors: 9 cudaErrorInvalidConfiguration 0 21 1 101 1024
END
for compression in none speed default; do
    [ $compression != default ] || ldconfig -p 2>/dev/null | grep -q 'libzstd.so.1 ' || continue
    "$NVCC" $ptx -compress-mode $compression -cudart shared "$source" -o "$work/program" || fail "nvcc failed"
    "$work/program" >"$work/out" 2>&1 || fail "the program failed ($compression)" "$work/out"
    diff "$work/expected" "$work/out" || fail "other output ($compression)"
done

"$NVCC" -gencode arch=compute_90,code=sm_90 -cudart shared "$source" -o "$work/program" || fail "nvcc failed"
"$work/program" >"$work/out" 2>&1 && fail "machine code was executed" "$work/out"
grep -q '^ptxpack-emu: the fat binary holds machine code of sm_90, but no PTX' "$work/out" &&
    grep -q 'there is no code in the image that runs on this device (209)' "$work/out" ||
    fail "machine code is not refused with a sentence" "$work/out"

"$NVCC" $ptx -cudart static "$source" -o "$work/program" || fail "nvcc failed"
"$work/program" >"$work/out" 2>&1 && fail "a program with the static runtime runs: the README says that it does not"
grep -q "^ptxpack-emu: this program contains NVIDIA's CUDA runtime" "$work/out" ||
    fail "the static runtime is not refused with a sentence" "$work/out"
echo "emu/runtime/programs: shared runtime right, static runtime and machine code refused"
