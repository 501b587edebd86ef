#!/bin/sh
# compilers.sh - compiles the headers of ptx/inline with the compilers of CUDA C++ that are installed: clang without
# any file of CUDA; nvcc with <stdint.h> and <cuda_fp16.h>, for host and device.  others.c does it with NVRTC.
cd "$(dirname "$0")/../.." || exit 1
headers=$(cd ptx && ls inline/*.h)
nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tried=0 failed=0
ln -s "$PWD/ptx" "$work/ptxpack"

# Write a kernel that uses each family that the target has, in a translation unit with all headers, each twice.
write() {
    for include in "$@" $headers $headers; do
        case $include in
        inline/*) echo "#include <ptxpack/$include>" ;;
        *) echo "#include $include" ;;
        esac
    done
    cat <<'CUDA'
__global__ void use(float *x, unsigned *y)
{
    using namespace ptxpack;
    x[2] = ex2_approx_f32(shuffle_xor(x[0], y[0]));
#if PTXPACK_HAS(75)
    float d[4] = {x[0], x[1], x[2], x[3]};
    u32   a[2] = {y[0], y[1]}, b[1] = {y[2]};
    SM75_16x8x8_F32F16F16F32_TN(d, a, b, d);
    x[0] = d[0];
#endif
#if PTXPACK_HAS(80)
    float e[4] = {0, 0, 0, 0};
    u32   k[4] = {y[0], y[1], y[2], y[3]};
    SM80_16x8x16_F32BF16BF16F32_TN(e, k, part<2>(k + 2), e);
    SM80_CP_ASYNC_CACHEGLOBAL<u128>(0, y);
    cp_async_commit();
    cp_async_wait<0>();
    x[1] = e[0];
#endif
#if PTXPACK_HAS_SUFFIX(100) && defined(__CUDA_ARCH__)
    SM100_U8x16_LDSM_T(k, y[4]);
    SM100_U8x16_STSM_T(y[5], k);
    ldmatrix_unpack_6<512>(k, y[4]);
    SM100_SU4_DU8x16_x4_LDSM_N(k, y[4]);
    y[6] = k[0] << 2;
#endif
#if PTXPACK_HAS_SUFFIX(120) && defined(__CUDA_ARCH__)
    float f[4] = {0, 0, 0, 0};
    SM120_16x8x32_F32E4M3E2M1F32_TN(f, k, part<2>(k + 2), f);
    SM120_16x8x32_F32E3M2E5M2F32_TN_VS32_UE8M0<3, 1, 2, 3>(f, k, part<2>(k + 2), f, y[7], y[8]);
    SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE4M3(f, k, part<2>(k + 2), f, y[7], y[8]);
    x[3] = f[0];
#endif
}
CUDA
}

try() {
    what=$1
    shift
    tried=$((tried + 1))
    "$@" >"$work/log" 2>&1 && return
    echo "FAIL: $what"
    cat "$work/log"
    failed=$((failed + 1))
}

for header in $headers; do
    sed -n 's/^ *# *define  *\([A-Za-z0-9_]*\).*/\1/p' "ptx/$header" | grep -v '^PTXPACK_' || continue
    echo "FAIL: ptx/$header defines a macro without our prefix"
    failed=$((failed + 1))
done
if command -v clang >/dev/null; then
    write >"$work/alone.cu"
    sed -i 's/__global__/__attribute__((global))/' "$work/alone.cu"
    for arch in 70 75 80; do
        for standard in c++11 c++17; do
            try "clang for sm_$arch as $standard" clang -x cuda --cuda-device-only \
                --cuda-gpu-arch=sm_$arch -nocudainc -nocudalib -Wno-unknown-cuda-version -std=$standard \
                -Wall -Wextra -Werror -I"$work" '-D__device__=__attribute__((device))' \
                '-D__forceinline__=inline __attribute__((always_inline))' -S -o "$work/out.ptx" \
                "$work/alone.cu"
        done
    done
else
    echo "SKIP: inline/compilers: clang is not installed"
fi
if [ -x "$nvcc" ]; then
    write '<stdint.h>' '<cuda_fp16.h>' >"$work/before.cu"
    { write && echo '#include <stdint.h>' && echo '#include <cuda_fp16.h>'; } >"$work/after.cu"
    for order in before after; do
        for arch in 75 90a 100a 120a 121f; do
            try "nvcc for sm_$arch, CUDA's headers $order ours" \
                "$nvcc" -arch=sm_$arch -std=c++17 -Werror all-warnings -I"$work" -c -o "$work/out.o" \
                "$work/$order.cu"
        done
    done
else
    echo "SKIP: inline/compilers: nvcc is not installed"
fi
echo "$tried compilations, $failed failures"
[ $failed -eq 0 ] || exit 1
[ $tried -gt 0 ] || exit 77
