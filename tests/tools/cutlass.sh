#!/bin/sh
# cutlass.sh - kernels in CuTe C++, with headers of CUTLASS that the machine has, by the flags of tools/examples/README.md:
# they compile, print into a pipe, multiply from registers and through swizzled shared memory, and an error in a template names the line that uses it.
# PTXPACK_TEST_CUTLASS is the folder with cute/tensor.hpp, PTXPACK_TEST_CUDA that of a toolkit's headers; otherwise
# Python's nvidia-cutlass and /usr/local/cuda/include are looked at.  Exit status 77: they or NVRTC are not there.
# Usage: cutlass.sh [BUILD]
cd "$(dirname "$0")/../.." || exit 1
build=$(readlink -f "${1:-build}")
cutlass=$PTXPACK_TEST_CUTLASS cuda=${PTXPACK_TEST_CUDA:-/usr/local/cuda/include}
[ -n "$cutlass" ] || cutlass=$(python3 -c 'import importlib.util as u
print(u.find_spec("cutlass_library").submodule_search_locations[0] + "/source/include")' 2>/dev/null)
if [ ! -f "$cutlass/cute/tensor.hpp" ] || [ ! -f "$cuda/cuda_fp16.h" ] || [ ! -d "$cuda/cccl" ]; then
    echo "SKIP: no headers of CUTLASS and CUDA (PTXPACK_TEST_CUTLASS, PTXPACK_TEST_CUDA)"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export PTXPACK_CACHE_DIR="$work/cache"
unset PTXPACK_DRIVER PTXPACK_PTX_DIR PTXPACK_ARCH PTXPACK_FORBID_COMPILE
failed=0 ran=0

cat >kernels.cu <<'END'
#include <cuda_fp16.h>
#include <cute/tensor.hpp>
using namespace cute;

__global__ void show(int *p)
{
    auto matrix = make_tensor(make_gmem_ptr(p), make_layout(make_shape(Int<4>{}, Int<6>{}), LayoutRight{}));
    auto tile = local_tile(matrix, make_shape(_2{}, _3{}), make_coord(1, 1));
    print(composition(matrix.layout(), make_layout(_2{}, _4{})));
    print("\n");
    print(tile.layout());
    for (int i = 0; i < size(tile); i++)
        printf(" %d", tile(i));
    print("\n");
}

// D = A B^T, 64 x 64 x 64, by the threads of MMA; A is of ones
template <class T, class MMA> __global__ void multiply(float *d, const T *b)
{
    auto mma = MMA{}.get_slice(threadIdx.x);
    auto rows = make_layout(Shape<_64, _64>{}, LayoutRight{});
    auto tBgB = mma.partition_B(make_tensor(make_gmem_ptr(b), rows));
    auto tCgD = mma.partition_C(make_tensor(make_gmem_ptr(d), rows));
    auto tArA = mma.partition_fragment_A(make_tensor(make_gmem_ptr(b), rows));
    auto tBrB = make_fragment_like(tBgB);
    auto tCrD = make_fragment_like(tCgD);
    fill(tArA, T(1));
    copy(tBgB, tBrB);
    clear(tCrD);
    gemm(MMA{}, tArA, tBrB, tCrD);
    copy(tCrD, tCgD);
}
using MMA = decltype(make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2, _2>>{}));

// The same through swizzled shared memory, by cp.async and ldmatrix: D = A B, B with a row for each k.
template <class MMA> __global__ void multiply_shared(float *d, const half_t *a, const half_t *b)
{
    using Rows = decltype(composition(Swizzle<3, 3, 3>{}, Layout<Shape<_64, _64>, Stride<_64, _1>>{}));
    using Columns = decltype(composition(Swizzle<3, 3, 3>{}, Layout<Shape<_64, _64>, Stride<_1, _64>>{}));
    __shared__ __align__(128) half_t memory[2 * 64 * 64];
    auto sA = make_tensor(make_smem_ptr(memory), Rows{});
    auto sB = make_tensor(make_smem_ptr(memory + 64 * 64), Rows{});
    auto sBt = make_tensor(make_smem_ptr(memory + 64 * 64), Columns{});
    auto rows = make_layout(Shape<_64, _64>{}, LayoutRight{});
    auto gmem_copy = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, half_t>{},
                                     Layout<Shape<_16, _8>, Stride<_8, _1>>{}, Layout<Shape<_1, _8>>{});
    auto load = gmem_copy.get_slice(threadIdx.x);
    copy(gmem_copy, load.partition_S(make_tensor(make_gmem_ptr(a), rows)), load.partition_D(sA));
    copy(gmem_copy, load.partition_S(make_tensor(make_gmem_ptr(b), rows)), load.partition_D(sB));
    cp_async_fence();
    cp_async_wait<0>();
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * 64 * 64; i += 128) // small numbers, whose sums are exact
        memory[i] = half_t(static_cast<int>(memory[i]) % 8);
    __syncthreads();
    auto mma = MMA{}.get_slice(threadIdx.x);
    auto tCrA = mma.partition_fragment_A(sA);
    auto tCrB = mma.partition_fragment_B(make_tensor(sBt.data(), get_nonswizzle_portion(Columns{})));
    auto copy_A = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, MMA{});
    auto copy_B = make_tiled_copy_B(Copy_Atom<SM75_U16x8_LDSM_T, half_t>{}, MMA{});
    copy(copy_A, copy_A.get_slice(threadIdx.x).partition_S(sA), copy_A.get_slice(threadIdx.x).retile_D(tCrA));
    copy(copy_B, copy_B.get_slice(threadIdx.x).partition_S(sBt), copy_B.get_slice(threadIdx.x).retile_D(tCrB));
    auto tCgD = mma.partition_C(make_tensor(make_gmem_ptr(d), rows));
    auto tCrD = make_fragment_like(tCgD);
    clear(tCrD);
    gemm(MMA{}, tCrA, tCrB, tCrD);
    copy(tCrD, tCgD);
}
using Wide = decltype(make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_4>>{}, Tile<_64, _16, _16>{}));

#ifdef WRONG
template <class T> __global__ void wrong(T *)
{
    auto a = make_layout(Shape<_4, _8, _8>{}, Stride<_1, _32, _4>{});
    print(composition(a, make_layout(Int<5>{}, Int<3>{})));
    T text = "text";
}
#endif
END

# run WANTED OPTION...: WANTED is in what the command prints into a pipe
run() {
    want=$1
    shift
    "$build/ptxpack" nvrtc kernels.cu -I "$cutlass" -I "$cuda" -I "$cuda/cccl" --option=-default-device --emu "$@" 2>&1 |
        grep -v -e '^ptxpack nvrtc: [0-9]* s:' >out
    ran=$((ran + 1))
    if grep -q 'no NVRTC library could be loaded' out; then
        echo "SKIP: $(cat out)"
        exit 77
    fi
    grep -qF -e "$want" out || {
        echo "FAIL: $*: no \"$want\" in:"
        cat out
        failed=$((failed + 1))
    }
}

run '_2:_1' --grid 1 --block 1 --entry show --arg iota:s32:24
grep -qxF '(_2,_3):(_6,_1) 15 21 16 22 17 23' out && [ "$(sed -n 3p out | cut -c1-6)" = device ] || {
    echo "FAIL: the kernel's lines are not there, or not before the report:"
    cat out
    failed=$((failed + 1))
}
run '2016 6112 10208 14304 18400 22496 26592 30688 ...' --grid 1 --block 128 --entry 'multiply<half_t, MMA>' \
    --arg out:f32:64*64 --arg iota:f16:64*64 # the sums of rows
run '0 112 448 784 896 1008 1344 784 ...' --grid 1 --block 128 --entry 'multiply_shared<Wide>' --arg out:f32:64*64 --arg iota:f16:64*64 \
    --arg iota:f16:64*64
run 'layout.hpp:' -D WRONG --no-run --entry 'wrong<int>'
run '(instantiated from kernels.cu:' -D WRONG --no-run --entry 'wrong<int>'
run 'and 1 more error; --errors 0 shows all' -D WRONG --no-run --entry 'wrong<int>' --errors 1
echo "$ran runs, $failed failures"
[ $failed -eq 0 ]
