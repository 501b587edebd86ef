#!/bin/sh
# program.sh - a program built with NVIDIA's headers for the CUDA runtime and NCCL runs on the emulated ones, which it finds only
# by the library path.
# Usage: program.sh [BUILD]
build=${1:-build}
source=$(dirname "$0")/program.cu
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() {
    echo "emu/nccl/program: $1"
    [ -z "$2" ] || cat "$2"
    exit 1
}
compile() { ${CC:-cc} -std=c11 -idirafter /usr/local/cuda/include "$@"; }
printf '#include <cuda_runtime.h>\n#include <nccl.h>\n#if NCCL_VERSION_CODE < 22800 || CUDART_VERSION < 13000\n#error old\n#endif\n' >"$work/headers.c"
if ! compile -fsyntax-only "$work/headers.c" 2>/dev/null; then
    echo "SKIP: emu/nccl/program: there are no headers of NCCL 2.28 and CUDA 13"
    exit 77
fi
emulated=$(readlink -f "$build/emulated")
for library in libnccl.so.2 libcudart.so.13; do
    [ -f "$emulated/$library" ] || fail "$emulated/$library is missing"
done
compile -x c "$source" -x none "$emulated/libnccl.so.2" "$emulated/libcudart.so.13" -Wl,-rpath-link,"$emulated" -o "$work/program" ||
    fail "it does not link"
unset PTXPACK_EMU_SM PTXPACK_EMU_FAULT PTXPACK_EMU_JUDGE PTXPACK_EMU_LOG PTXPACK_EMU_ERRORS PTXPACK_EMU_MEMORY \
    PTXPACK_EMU_NCCL_FAULT
LD_LIBRARY_PATH=$emulated PTXPACK_EMU_DEVICES=3 "$work/program" >"$work/out" 2>&1 || fail "the program failed" "$work/out"
cat >"$work/expected" <<'END'
device 0 of 3, NCCL 228: 3 3000
device 1 of 3, NCCL 228: 3 3000
device 2 of 3, NCCL 228: 3 3000
END
diff "$work/expected" "$work/out" || fail "other output"
echo "emu/nccl/program: right"
