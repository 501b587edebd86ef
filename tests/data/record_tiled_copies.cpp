/* record_tiled_copies.cpp - records what CuTe computes for tiled copies: tests/data/tiled_copies.txt.
 *
 * Each case is one line with the options of "ptxpack atom" that describe it, then what CuTe prints for the thread, and
 * what CuTe computes for it: the layouts (thread, value) -> element, partition_S and partition_D of a tensor, the tiled
 * MMA's fragment of it, and retile_S and retile_D of that fragment, each as its layout and the offset of its pointer.
 * The sed command removes CuTe's marks of static integers, the underscores, and of bits that it knows.  $CUTLASS is a
 * copy of NVIDIA's CUTLASS; the record was made with 4.2.0 and CUDA 13.0.
 *
 *   for part in 0 1 2 3 4 5 6 7 8; do
 *       g++ -std=c++17 -w -DPART=$part -I$CUTLASS/include -isystem /usr/local/cuda/include \
 *           -isystem /usr/local/cuda/include/cccl tests/data/record_tiled_copies.cpp -o record && ./record
 *   done | sed 's/M_0|([0-9]*&[0-9]*)=//g; s/\([^0-9A-Z]\)_\([0-9]\)/\1\2/g' >tests/data/tiled_copies.txt
 *
 * Without PART all cases are compiled at once, which takes much memory. */
#include <cstdio>
#include <cute/tensor.hpp>
#include <cute/atom/copy_atom.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/swizzle_layout.hpp>

using namespace cute;

#ifndef PART
#define PART -1
#endif
#define IN_PART(n) (PART < 0 || PART == (n))

static char memory[1 << 22];

template <class Tensor, class T> static void print_part(char const *title, Tensor const &part, T const *start)
{
    print(title);
    print(": ");
    print(part.layout());
    printf(" + %d\n", int(&*part.data() - start));
}

template <class Copy> static void print_tv(Copy const &copy)
{
    print("LayoutS_TV: ");
    print(copy.get_layoutS_TV());
    print("\nLayoutD_TV: ");
    print(copy.get_layoutD_TV());
    print("\n");
}

/* The thread's parts of a tensor. */
template <class T, class Copy, class Layout>
static void partitions(Copy const &copy, Layout const &layout, int thread)
{
    T   *start = reinterpret_cast<T *>(memory);
    auto thr = copy.get_slice(thread);
    print(thr);
    print_tv(copy);
    auto tensor = make_tensor(start, layout);
    print_part("partition_S", thr.partition_S(tensor), start);
    print_part("partition_D", thr.partition_D(tensor), start);
}

template <class Layout> static void option(char const *name, Layout const &layout)
{
    printf(" --%s '", name);
    print(layout);
    print("'");
}

/* make_tiled_copy of threads and values. */
template <class T, class Op, class Threads, class Values, class Layout>
static void of_threads(char const *op, Threads threads, Values values, Layout layout, int thread)
{
    printf("$ --tiled '%s' --bits %d", op, int(sizeof_bits_v<T>));
    option("threads", threads);
    option("values", values);
    option("tensor", layout);
    printf(" --thread %d\n", thread);
    partitions<T>(make_tiled_copy(Copy_Atom<Op, T>{}, threads, values), layout, thread);
}

/* --atoms and --tile. */
template <class Atoms, class Tile> static void option_of_mma(Atoms const &atoms, Tile const &tile)
{
    option("atoms", atoms);
    print(" --tile '<");
    print(get<0>(tile));
    print(",");
    print(get<1>(tile));
    print(",");
    print(get<2>(tile));
    print(">'");
}

enum operand { OF_A, OF_B, OF_C, OF_C_ATOM };

/* make_tiled_copy_A, _B, _C or _C_atom of a tiled MMA, and its fragment of the tensor. */
template <operand X, class T, class Op, class Mma, class Atoms, class Tile, class Layout>
static void of_mma(char const *op, char const *mma_op, Atoms atoms, Tile tile, Layout layout, int thread)
{
    auto mma = make_tiled_mma(MMA_Atom<Mma>{}, atoms, tile);
    printf("$ --tiled '%s' --bits %d --mma '%s'", op, int(sizeof_bits_v<T>), mma_op);
    option_of_mma(atoms, tile);
    printf(" --operand %s", X == OF_A ? "A" : X == OF_B ? "B" : X == OF_C ? "C" : "C_atom");
    option("tensor", layout);
    printf(" --thread %d\n", thread);
    Copy_Atom<Op, T> atom;
    T               *start = reinterpret_cast<T *>(memory);
    auto             tensor = make_tensor(start, layout);
    auto             thr_mma = mma.get_slice(thread);
    auto             finish = [&](auto const &copy, auto const &fragment) {
        partitions<T>(copy, layout, thread);
        auto thr = copy.get_slice(thread);
        printf("partition_fragment_%c: ", X == OF_A ? 'A' : X == OF_B ? 'B' : 'C');
        print(fragment.layout());
        print("\n");
        print_part("retile_S", thr.retile_S(fragment), &*fragment.data());
        print_part("retile_D", thr.retile_D(fragment), &*fragment.data());
    };
    if constexpr (X == OF_A)
        finish(make_tiled_copy_A(atom, mma), thr_mma.partition_fragment_A(tensor));
    else if constexpr (X == OF_B)
        finish(make_tiled_copy_B(atom, mma), thr_mma.partition_fragment_B(tensor));
    else if constexpr (X == OF_C_ATOM)
        finish(make_tiled_copy_C_atom(atom, mma), thr_mma.partition_fragment_C(tensor));
    else
        finish(make_tiled_copy_C(atom, mma), thr_mma.partition_fragment_C(tensor));
}

/* What a thread of a tiled MMA has of its operand, and the fragment. */
template <operand X, class T, class Mma, class Atoms, class Tile, class Layout>
static void of_thr_mma(char const *mma_op, Atoms atoms, Tile tile, Layout layout, int thread)
{
    auto mma = make_tiled_mma(MMA_Atom<Mma>{}, atoms, tile);
    char x = "ABCC"[X];
    printf("$ --tiled '%s'", mma_op);
    option_of_mma(atoms, tile);
    printf(" --operand %c", x);
    option("tensor", layout);
    printf(" --thread %d\nThread: %d\n", thread, thread);
    T   *start = reinterpret_cast<T *>(memory);
    auto tensor = make_tensor(start, layout);
    auto thr = mma.get_slice(thread);
    char title[] = "partition_X", fragment[] = "partition_fragment_X: ";
    title[10] = fragment[19] = x;
    auto finish = [&](auto const &part, auto const &held) {
        print_part(title, part, start);
        print(fragment);
        print(held.layout());
        print("\n");
    };
    if constexpr (X == OF_A)
        finish(thr.partition_A(tensor), thr.partition_fragment_A(tensor));
    else if constexpr (X == OF_B)
        finish(thr.partition_B(tensor), thr.partition_fragment_B(tensor));
    else
        finish(thr.partition_C(tensor), thr.partition_fragment_C(tensor));
}

/* retile of what another tiled copy of as many threads writes. */
template <class T, class FirstOp, class Op, class FirstThreads, class FirstValues, class Threads, class Values,
          class Layout>
static void of_retile(char const *op, FirstThreads first_threads, FirstValues first_values, Threads threads,
                      Values values, Layout layout, int thread)
{
    T   *start = reinterpret_cast<T *>(memory);
    auto first = make_tiled_copy(Copy_Atom<FirstOp, T>{}, first_threads, first_values).get_slice(thread);
    auto part = first.partition_D(make_tensor(start, layout));
    auto copy = make_tiled_copy(Copy_Atom<Op, T>{}, threads, values);
    auto thr = copy.get_slice(thread);
    printf("$ --tiled '%s' --bits %d", op, int(sizeof_bits_v<T>));
    option("threads", threads);
    option("values", values);
    option("fragment", part.layout());
    printf(" --thread %d\n", thread);
    print(thr);
    print_tv(copy);
    print("Fragment: ");
    print(part.layout());
    print("\n");
    print_part("retile_S", thr.retile_S(part), &*part.data());
    print_part("retile_D", thr.retile_D(part), &*part.data());
}

/* A copy that is made by what describes it in C++, which ptxpack reads as it stands. */
template <class T, class Copy, class Layout>
static void as_spelt(char const *text, Copy const &copy, Layout const &layout, int thread)
{
    printf("$ '%s'", text);
    option("tensor", layout);
    printf(" --thread %d\n", thread);
    partitions<T>(copy, layout, thread);
}

#define SPELT(type, layout, thread, ...) as_spelt<type>(#__VA_ARGS__, __VA_ARGS__, layout, thread)
#define THREADS(type, op, ...)       of_threads<type, op>(#op, __VA_ARGS__)
#define RETILE(type, first, op, ...) of_retile<type, first, op>(#op, __VA_ARGS__)
#define THR_MMA(x, type, mma, ...)   of_thr_mma<OF_##x, type, mma>(#mma, __VA_ARGS__)
#define MMA(x, type, op, mma, ...)   of_mma<OF_##x, type, op, mma>(#op, #mma, __VA_ARGS__)

template <class M, class N> static auto row(M m, N n)
{
    return make_layout(make_shape(m, n), make_stride(n, Int<1>{}));
}
template <class M, class N> static auto          col(M m, N n) { return make_layout(make_shape(m, n)); }
template <class M, class N, class K> static auto t(M m, N n, K k) { return make_tile(m, n, k); }
template <int B, int M, int X, class Atom, class Full> static auto swizzled(Atom atom, Full full)
{
    return tile_to_shape(composition(Swizzle<B, M, X>{}, atom), full);
}

static const Int<1>                                  i1;
static const Int<2>                                  i2;
static const Int<4>                                  i4;
static const Int<8>                                  i8;
static const Int<16>                                 i16;
static const Int<32>                                 i32;
static const Int<64>                                 i64;
static const Int<128>                                i128;
static const Layout<Shape<_8, _64>, Stride<_64, _1>> k64;
static const Layout<Shape<_8, _32>, Stride<_32, _1>> k32;
static const Layout<Shape<_64, _8>, Stride<_1, _64>> mn64;
static const auto                                    a1 = make_layout(make_shape(i1, i1, i1));
static const auto                                    a4 = make_layout(make_shape(i4, i1, i1));
static const auto                                    a22 = make_layout(make_shape(i2, i2, i1));
static const auto a24 = make_layout(make_shape(i2, i4, i1), make_stride(i4, i1, Int<0>{}));
static const auto v22 = make_layout(make_shape(i2, i2, i1), make_stride(i2, i1, Int<0>{}));
static const auto permuted = make_layout(make_shape(i4, i4, i2), make_stride(i1, i8, i4));

int main()
{
#if IN_PART(0)
    THREADS(half_t, UniversalCopy<uint128_t>, row(i16, i8), row(i1, i8), row(i64, i64), 77);
    THREADS(half_t, UniversalCopy<uint128_t>, row(i32, i4), row(i1, i8), row(i128, i64), 5);
    THREADS(half_t, UniversalCopy<uint64_t>, row(i8, i4), row(i1, i4), row(i32, i32), 31);
    THREADS(half_t, UniversalCopy<uint32_t>, col(i32, i2), col(i2, i1), col(i128, i8), 45);
    THREADS(half_t, UniversalCopy<uint16_t>, col(i8, i4), col(i2, i2), row(i32, i16), 13);
    THREADS(float, UniversalCopy<uint128_t>, row(i8, i16), row(i1, i4), row(i32, i64), 100);
    THREADS(float, UniversalCopy<uint32_t>, row(i4, i8), row(i4, i1), row(i32, i16), 9);
    THREADS(uint8_t, UniversalCopy<uint8_t>, row(i4, i8), col(i2, i2), row(i16, i32), 30);
    THREADS(uint8_t, UniversalCopy<uint128_t>, row(i16, i4), row(i1, i16), row(i32, i64), 19);
    THREADS(double, UniversalCopy<uint64_t>, col(i16, i8), make_layout(i1), row(i32, i16), 64);
    THREADS(double, UniversalCopy<uint128_t>, col(i4, i8), row(i1, i2), row(i16, i32), 21);
    THREADS(half_t, UniversalCopy<uint128_t>, make_layout(i32), make_layout(i8), make_layout(Int<512>{}), 17);
    THREADS(half_t, UniversalCopy<uint64_t>, col(i32, i8), col(i4, i1), col(i128, i32), 201);
    THREADS(half_t, UniversalCopy<uint128_t>,
            make_layout(make_shape(make_shape(i2, i8), i8), make_stride(make_stride(i1, i16), i2)), row(i1, i8),
            row(i64, i64), 50);
    THREADS(half_t, UniversalCopy<uint32_t>,
            make_layout(make_shape(i4, make_shape(i2, i4)), make_stride(i8, make_stride(i1, i2))), row(i2, i2),
            row(i16, i32), 22);
    THREADS(half_t, UniversalCopy<uint128_t>, row(i16, i8), row(i1, i8),
            (swizzled<3, 3, 3>(k64, make_shape(i64, i64))), 90);
    THREADS(half_t, UniversalCopy<uint128_t>, row(i16, i8), row(i1, i8),
            (swizzled<3, 3, 3>(k64, make_shape(i128, i128))), 127);
    THREADS(half_t, UniversalCopy<uint128_t>, row(i16, i8), row(i1, i8),
            make_layout(make_shape(i64, i64, i4), make_stride(i64, i1, Int<4096>{})), 33);
#endif
#if IN_PART(1)
    THREADS(half_t, SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, row(i16, i8), row(i1, i8), row(i128, i64), 90);
    THREADS(half_t, SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, row(i32, i4), row(i1, i8),
            (swizzled<2, 3, 3>(k32, make_shape(i64, i64))), 66);
    THREADS(bfloat16_t, SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, col(i8, i16), col(i8, i1), col(i64, i64), 11);
    THREADS(bfloat16_t, SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, col(i8, i16), col(i8, i1),
            (swizzled<3, 3, 3>(mn64, make_shape(i64, i64))), 29);
    THREADS(float, SM80_CP_ASYNC_CACHEALWAYS<uint32_t>, row(i8, i32), row(i1, i1), row(i64, i64), 250);
    THREADS(float, SM80_CP_ASYNC_CACHEALWAYS<uint64_t>, row(i8, i16), row(i1, i2), row(i64, i64), 60);
    THREADS(float, SM80_CP_ASYNC_CACHEALWAYS<uint128_t>, row(i16, i8), row(i1, i4), row(i64, i32), 3);
    THREADS(tfloat32_t, SM80_CP_ASYNC_CACHEALWAYS<uint128_t>, row(i16, i8), row(i1, i4), row(i64, i32), 127);
    THREADS(half_t, SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint64_t>, row(i16, i8), row(i1, i4), row(i64, i32), 40);
    THREADS(int8_t, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>, row(i32, i8), row(i1, i16), row(i64, i128),
            255);
    THREADS(double, SM80_CP_ASYNC_CACHEALWAYS<uint64_t>, col(i32, i4), col(i1, i1), col(i64, i16), 35);
    THREADS(half_t, SM75_U32x4_LDSM_N, row(i32, i4), row(i1, i8), row(i64, i32), 70);
    THREADS(half_t, SM75_U32x4_LDSM_N, row(i16, i2), row(i1, i8),
            (swizzled<3, 3, 3>(k64, make_shape(i16, i64))), 21);
    THREADS(half_t, SM75_U32x2_LDSM_N, row(i16, i2), row(i2, i4), row(i32, i16), 18);
    THREADS(half_t, SM75_U32x1_LDSM_N, col(i8, i4), row(i1, i2), row(i16, i16), 8);
    THREADS(half_t, SM75_U16x8_LDSM_T, col(i16, i2), col(i8, i1), col(i128, i16), 29);
    THREADS(half_t, SM75_U16x4_LDSM_T, col(i8, i4), col(i4, i1), col(i64, i8), 14);
    THREADS(half_t, SM75_U16x2_LDSM_T, col(i8, i8), col(i2, i1), col(i32, i8), 55);
    THREADS(half_t, SM90_U32x4_STSM_N, row(i32, i4), row(i1, i8), row(i64, i32), 99);
    THREADS(half_t, SM90_U32x2_STSM_N, row(i8, i4), row(i2, i4), row(i32, i32), 27);
    THREADS(half_t, SM90_U32x1_STSM_N, row(i8, i4), row(i1, i2), row(i16, i16), 1);
    THREADS(half_t, SM90_U16x8_STSM_T, col(i16, i2), col(i8, i1), col(i128, i16), 5);
    THREADS(half_t, SM90_U16x4_STSM_T, col(i8, i4), col(i4, i1), col(i64, i8), 31);
    THREADS(uint8_t, SM75_U32x4_LDSM_N, row(i16, i2), row(i1, i16), row(i32, i64), 6);
    THREADS(float, SM75_U32x4_LDSM_N, row(i8, i4), row(i1, i4), row(i32, i32), 12);
    THREADS(uint32_t, SM50_Shuffle_U32_2x2Trans_XOR1, row(i8, i4), row(i1, i2), row(i16, i16), 12);
#endif
#if IN_PART(2)
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a1, t(i16, i8, i16), row(i16, i16), 13);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16), row(i64, i64), 77);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16),
        (swizzled<3, 3, 3>(k64, make_shape(i64, i64))), 77);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16),
        (swizzled<3, 3, 3>(k64, make_shape(i128, i128))), 121);
    MMA(B, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16), row(i64, i64), 50);
    MMA(B, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16),
        (swizzled<3, 3, 3>(k64, make_shape(i64, i128))), 50);
    MMA(B, half_t, SM75_U32x2_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a1, t(i16, i8, i16), row(i32, i32), 19);
    MMA(B, half_t, SM75_U16x8_LDSM_T, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16), col(i64, i64), 101);
    MMA(B, half_t, SM75_U16x8_LDSM_T, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16),
        (swizzled<3, 3, 3>(mn64, make_shape(i64, i64))), 101);
    MMA(B, half_t, SM75_U16x4_LDSM_T, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i16, i16), col(i64, i32), 88);
    MMA(C, float, UniversalCopy<uint64_t>, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16), row(i64, i64),
        69);
    MMA(C, half_t, UniversalCopy<uint32_t>, SM80_16x8x16_F16F16F16F16_TN, a22, t(i32, i32, i16), row(i64, i64),
        111);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F16F16F16F16_TN, a22, t(i32, i32, i16), row(i128, i32), 65);
    MMA(B, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F16F16F16F16_TN, a22, t(i32, i32, i16), row(i128, i32), 32);
    MMA(A, bfloat16_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32BF16BF16F32_TN, a24, t(i32, i64, i16), row(i64, i64),
        255);
    MMA(B, bfloat16_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32BF16BF16F32_TN, a24, t(i32, i64, i16), row(i64, i64),
        130);
    MMA(A, half_t, SM75_U32x2_LDSM_N, SM75_16x8x8_F32F16F16F32_TN, a1, t(i16, i8, i8), row(i32, i32), 30);
    MMA(B, half_t, SM75_U32x1_LDSM_N, SM75_16x8x8_F32F16F16F32_TN, a1, t(i16, i8, i8), row(i16, i16), 7);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM75_16x8x8_F32F16F16F32_TN, a22, t(i32, i32, i16), row(i64, i32), 97);
    MMA(B, half_t, SM75_U32x4_LDSM_N, SM75_16x8x8_F32F16F16F32_TN, a22, t(i32, i32, i16), row(i64, i32), 97);
#endif
#if IN_PART(3)
    MMA(A, tfloat32_t, SM75_U32x4_LDSM_N, SM80_16x8x8_F32TF32TF32F32_TN, a22, t(i32, i16, i8), row(i64, i32),
        47);
    MMA(B, tfloat32_t, SM75_U32x2_LDSM_N, SM80_16x8x8_F32TF32TF32F32_TN, a22, t(i32, i16, i8), row(i64, i32),
        47);
    MMA(C, float, UniversalCopy<uint64_t>, SM80_16x8x8_F32TF32TF32F32_TN, a22, t(i32, i16, i8), row(i64, i32),
        126);
    MMA(A, int8_t, SM75_U32x4_LDSM_N, SM80_16x8x32_S32S8S8S32_TN, a4, t(i64, i16, i32), row(i64, i64), 100);
    MMA(B, int8_t, SM75_U32x4_LDSM_N, SM80_16x8x32_S32S8S8S32_TN, a4, t(i64, i16, i32), row(i64, i64), 100);
    MMA(C, int32_t, UniversalCopy<uint64_t>, SM80_16x8x32_S32S8S8S32_TN, a4, t(i64, i16, i32), row(i64, i64),
        64);
    MMA(A, float_e4m3_t, SM75_U32x4_LDSM_N, SM89_16x8x32_F32E4M3E4M3F32_TN, a22, t(i32, i32, i32),
        row(i64, i64), 3);
    MMA(B, float_e4m3_t, SM75_U32x4_LDSM_N, SM89_16x8x32_F32E4M3E4M3F32_TN, a22, t(i32, i32, i32),
        row(i64, i64), 3);
    MMA(A, half_t, UniversalCopy<uint64_t>, SM70_8x8x4_F32F16F16F32_NT, v22, t(i32, i32, i4), col(i64, i16),
        27);
    MMA(B, half_t, UniversalCopy<uint64_t>, SM70_8x8x4_F32F16F16F32_NT, v22, t(i32, i32, i4), col(i64, i16),
        27);
    MMA(C, float, UniversalCopy<uint32_t>, SM70_8x8x4_F32F16F16F32_NT, v22, t(i32, i32, i4), row(i64, i32), 18);
    MMA(A, half_t, UniversalCopy<uint128_t>, SM70_8x8x4_F32F16F16F32_NT, v22, t(permuted, i32, i4),
        col(i64, i16), 27);
    MMA(A, double, UniversalCopy<uint64_t>, SM80_8x8x4_F64F64F64F64_TN, a22, t(i16, i16, i4), row(i32, i16),
        127);
    MMA(C, double, UniversalCopy<uint128_t>, SM80_8x8x4_F64F64F64F64_TN, a22, t(i16, i16, i4), row(i32, i16),
        90);
    MMA(C, half_t, SM90_U32x4_STSM_N, SM80_16x8x16_F16F16F16F16_TN, a4, t(i64, i16, i16), row(i64, i64), 37);
    MMA(C, half_t, SM90_U32x4_STSM_N, SM80_16x8x16_F16F16F16F16_TN, a4, t(i64, i16, i16),
        (swizzled<3, 3, 3>(k64, make_shape(i64, i64))), 37);
    MMA(C, half_t, SM90_U16x8_STSM_T, SM80_16x8x16_F16F16F16F16_TN, a4, t(i64, i16, i16), col(i64, i64), 37);
    MMA(C, half_t, SM90_U32x2_STSM_N, SM80_16x8x16_F16F16F16F16_TN, a1, t(i16, i8, i16), row(i16, i32), 9);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x8_F32F16F16F32_TN, a4, t(i64, i8, i16), row(i64, i64), 5);
    MMA(A, double, UniversalCopy<uint64_t>, SM90_16x8x4_F64F64F64F64_TN, a4, t(i64, i8, i4), row(i64, i16),
        120);
#endif
#if IN_PART(4)
    MMA(C_ATOM, half_t, SM90_U32x4_STSM_N, SM80_16x8x16_F16F16F16F16_TN, a4, t(i64, i16, i16), row(i64, i64),
        70);
    MMA(C_ATOM, float, UniversalCopy<uint64_t>, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16),
        row(i64, i64), 70);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16),
        make_layout(make_shape(i64, i32, i4), make_stride(i32, i1, Int<2048>{})), 99);
    MMA(B, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16),
        make_layout(make_shape(i64, i32, i4), make_stride(i32, i1, Int<2048>{})), 99);
    MMA(B, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16),
        (swizzled<2, 3, 3>(k32, make_shape(i64, i64))), 127);
    MMA(C, half_t, UniversalCopy<uint128_t>, SM80_16x8x16_F16F16F16F16_TN, a4, t(i64, i32, i16), row(i64, i64),
        37);
    of_mma<OF_C, half_t, SM90_U32x4_STSM_N, SM90_64x64x16_F16F16F16_SS<GMMA::Major::K, GMMA::Major::K>>(
        "SM90_U32x4_STSM_N", "SM90_64x64x16_F16F16F16_SS", a1, t(i64, i64, i16), row(i64, i64), 37);
    of_mma<OF_C, half_t, SM90_U32x4_STSM_N, SM90_64x128x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>>(
        "SM90_U32x4_STSM_N", "SM90_64x128x16_F32F16F16_SS", make_layout(make_shape(i2, i1, i1)),
        t(i128, i128, i16), (swizzled<3, 3, 3>(k64, make_shape(i128, i128))), 200);
#endif
#if IN_PART(5)
    Layout<Shape<_8, _16>, Stride<_16, _1>>   k16;
    Layout<Shape<_8, _128>, Stride<_128, _1>> k128;
    Layout<Shape<_32, _8>, Stride<_1, _32>>   mn32;
    auto                                      n16 = make_shape(i64, i64, i4);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16),
        (swizzled<3, 3, 4>(k128, make_shape(i128, i128))), 14);
    MMA(B, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16),
        (swizzled<3, 3, 4>(k128, make_shape(i64, i128))), 99);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16),
        (swizzled<1, 3, 3>(k16, make_shape(i64, i64))), 77);
    MMA(B, half_t, SM75_U32x2_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i16, i16),
        (swizzled<2, 3, 3>(k32, make_shape(i64, i64))), 3);
    MMA(A, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16),
        (swizzled<3, 3, 3>(k64, n16)), 120);
    MMA(B, half_t, SM75_U32x4_LDSM_N, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16),
        (swizzled<2, 3, 3>(k32, n16)), 31);
    MMA(A, half_t, SM75_U16x8_LDSM_T, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16),
        (swizzled<3, 3, 3>(mn64, make_shape(i128, i64))), 85);
    MMA(B, half_t, SM75_U16x8_LDSM_T, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16),
        (swizzled<2, 3, 3>(mn32, make_shape(i64, i64))), 85);
    MMA(A, tfloat32_t, SM75_U32x4_LDSM_N, SM80_16x8x8_F32TF32TF32F32_TN, a22, t(i32, i16, i8),
        (swizzled<3, 2, 3>(k32, make_shape(i64, i64))), 60);
    MMA(A, int8_t, SM75_U32x4_LDSM_N, SM80_16x8x32_S32S8S8S32_TN, a4, t(i64, i16, i32),
        (swizzled<3, 4, 3>(k128, make_shape(i64, i128))), 11);
    MMA(B, int8_t, SM75_U32x4_LDSM_N, SM80_16x8x32_S32S8S8S32_TN, a4, t(i64, i16, i32),
        (swizzled<2, 4, 3>(k64, make_shape(i64, i128))), 90);
    MMA(C, half_t, UniversalCopy<uint32_t>, SM80_16x8x16_F16F16F16F16_TN, a4, t(i64, i16, i16),
        (swizzled<3, 3, 3>(k64, make_shape(i64, i128))), 103);
    MMA(C, float, UniversalCopy<uint64_t>, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16),
        (swizzled<3, 2, 3>(k32, make_shape(i64, i64))), 47);
#endif
#if IN_PART(6)
    THR_MMA(A, half_t, SM80_16x8x16_F32F16F16F32_TN, a1, t(i16, i8, i16), row(i32, i32), 13);
    THR_MMA(B, half_t, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16), row(i64, i64), 100);
    THR_MMA(C, float, SM80_16x8x16_F32F16F16F32_TN, a22, t(i32, i32, i16), row(i64, i64), 100);
    THR_MMA(A, half_t, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16),
            (swizzled<3, 3, 3>(k64, make_shape(i64, i64))), 50);
    THR_MMA(B, half_t, SM80_16x8x16_F32F16F16F32_TN, a4, t(i64, i16, i16),
            (swizzled<3, 3, 3>(k64, make_shape(i64, i64))), 127);
    THR_MMA(C, half_t, SM80_16x8x16_F16F16F16F16_TN, a4, t(i64, i16, i16),
            (swizzled<2, 3, 3>(k32, make_shape(i64, i64))), 127);
    THR_MMA(A, half_t, SM70_8x8x4_F32F16F16F32_NT, v22, t(i32, i32, i4), col(i64, i16), 21);
    THR_MMA(A, half_t, SM70_8x8x4_F32F16F16F32_NT, v22, t(permuted, i32, i4), col(i64, i16), 21);
    THR_MMA(B, half_t, SM70_8x8x4_F32F16F16F32_NT, v22, t(permuted, i32, i4), col(i64, i16), 30);
    THR_MMA(C, float, SM70_8x8x4_F32F16F16F32_NT, v22, t(permuted, i32, i4), row(i64, i32), 30);
    THR_MMA(A, half_t, SM75_16x8x8_F32F16F16F32_TN, a22, t(i32, i32, i16),
            make_layout(make_shape(i64, i32, i4), make_stride(i32, i1, Int<2048>{})), 7);
    THR_MMA(A, tfloat32_t, SM80_16x8x8_F32TF32TF32F32_TN, a24, t(i32, i32, i8), row(i64, i32), 200);
    THR_MMA(B, int8_t, SM80_16x8x32_S32S8S8S32_TN, a4, t(i64, i16, i32), row(i64, i64), 44);
    THR_MMA(C, double, SM80_8x8x4_F64F64F64F64_TN, a22, t(i16, i16, i4), row(i32, i16), 90);
    of_thr_mma<OF_C, float, SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>>(
        "SM90_64x64x16_F32F16F16_SS", make_layout(make_shape(i2, i1, i1)), t(i128, i64, i16), row(i128, i128),
        200);
#endif
#if IN_PART(7)
    RETILE(half_t, SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, SM75_U32x4_LDSM_N, row(i32, i4), row(i1, i8),
           row(i32, i4), row(i1, i8), row(i128, i64), 77);
    RETILE(half_t, UniversalCopy<uint32_t>, UniversalCopy<uint64_t>, row(i8, i4), row(i2, i4), row(i8, i4),
           row(i2, i4), row(i32, i64), 9);
    RETILE(half_t, UniversalCopy<uint64_t>, UniversalCopy<uint128_t>, row(i8, i4), row(i1, i8), row(i8, i4),
           row(i1, i8), row(i32, i64), 9);
    RETILE(half_t, UniversalCopy<uint32_t>, SM75_U32x4_LDSM_N, row(i16, i4), row(i2, i4), row(i16, i4),
           row(i2, i8), row(i64, i64), 33);
    RETILE(float, UniversalCopy<uint32_t>, UniversalCopy<uint128_t>, col(i16, i8), col(i4, i1), col(i16, i8),
           col(i4, i2), col(i128, i64), 64);
    RETILE(float, UniversalCopy<uint128_t>, SM90_U32x2_STSM_N, row(i8, i4), row(i1, i4), row(i8, i4),
           row(i2, i4), row(i64, i64), 1);
    RETILE(uint8_t, UniversalCopy<uint128_t>, UniversalCopy<uint32_t>, row(i4, i8), row(i1, i16), row(i4, i8),
           row(i1, i16), row(i32, i128), 30);
    RETILE(half_t, UniversalCopy<uint64_t>, SM75_U16x8_LDSM_T, col(i16, i2), col(i4, i2), col(i16, i2),
           col(i4, i2), col(i128, i16), 30);
#endif
#if IN_PART(8)
    SPELT(half_t, row(i64, i64), 77,
          make_tiled_copy_S(Copy_Atom<UniversalCopy<uint32_t>, half_t>{},
                            make_tiled_copy(Copy_Atom<UniversalCopy<uint128_t>, half_t>{},
                                            Layout<Shape<_16, _8>, Stride<_8, _1>>{},
                                            Layout<Shape<_1, _8>>{})));
    SPELT(half_t, row(i64, i64), 21,
          make_tiled_copy_S(Copy_Atom<UniversalCopy<uint64_t>, half_t>{},
                            make_tiled_copy(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{},
                                            Layout<Shape<_16, _2>, Stride<_2, _1>>{},
                                            Layout<Shape<_1, _8>>{})));
    SPELT(half_t, row(i64, i64), 21,
          make_tiled_copy_D(Copy_Atom<UniversalCopy<uint32_t>, half_t>{},
                            make_tiled_copy(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{},
                                            Layout<Shape<_16, _2>, Stride<_2, _1>>{},
                                            Layout<Shape<_1, _8>>{})));
    SPELT(half_t, col(i128, i16), 30,
          make_tiled_copy_D(Copy_Atom<UniversalCopy<uint16_t>, half_t>{},
                            make_tiled_copy(Copy_Atom<SM75_U16x8_LDSM_T, half_t>{}, Layout<Shape<_16, _2>>{},
                                            Layout<Shape<_8, _1>>{})));
    SPELT(half_t, row(i64, i64), 50,
          make_tiled_copy_D(Copy_Atom<UniversalCopy<uint32_t>, half_t>{},
                            make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{},
                                              make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{},
                                                             Layout<Shape<_2, _2, _1>>{},
                                                             Tile<_32, _32, _16>{}))));
    SPELT(half_t, row(i64, i64), 101,
          make_tiled_copy_D(Copy_Atom<UniversalCopy<uint32_t>, half_t>{},
                            make_tiled_copy_B(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{},
                                              make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{},
                                                             Layout<Shape<_2, _2, _1>>{},
                                                             Tile<_32, _32, _16>{}))));
    SPELT(half_t, (swizzled<3, 3, 3>(k64, make_shape(i64, i64))), 99,
          make_tiled_copy_S(Copy_Atom<SM90_U32x4_STSM_N, half_t>{},
                            make_tiled_copy_C(Copy_Atom<UniversalCopy<uint32_t>, half_t>{},
                                              make_tiled_mma(SM80_16x8x16_F16F16F16F16_TN{},
                                                             Layout<Shape<_4, _1, _1>>{},
                                                             Tile<_64, _16, _16>{}))));
    SPELT(half_t, row(i64, i64), 70,
          make_cotiled_copy(Copy_Atom<UniversalCopy<uint128_t>, half_t>{},
                            Layout<Shape<_128, _8>, Stride<_8, _1>>{},
                            Layout<Shape<_64, _64>, Stride<_64, _1>>{}));
    SPELT(half_t, row(i64, i32), 5,
          make_cotiled_copy(Copy_Atom<UniversalCopy<uint128_t>, half_t>{},
                            Layout<Shape<_32, _8>, Stride<_8, _1>>{},
                            Layout<Shape<_64, _32>, Stride<_32, _1>>{}));
    SPELT(float, col(i64, i32), 63,
          make_cotiled_copy(Copy_Atom<UniversalCopy<uint128_t>, float>{},
                            Layout<Shape<_64, _4>, Stride<_4, _1>>{}, Layout<Shape<_64, _32>>{}));
    SPELT(half_t, row(i64, i64), 90,
          make_cotiled_copy(Copy_Atom<UniversalCopy<uint32_t>, half_t>{},
                            Layout<Shape<Shape<_4, _8, _4>, _2>, Stride<Stride<_2, _64, _8>, _1>>{},
                            Layout<Shape<_64, _64>, Stride<_64, _1>>{}));
    SPELT(half_t, row(i64, i64), 77,
          TiledCopy<Copy_Atom<UniversalCopy<uint128_t>, half_t>,
                    Layout<Shape<Shape<_8, _16>, _8>, Stride<Stride<_128, _1>, _16>>, Shape<_16, _64>>{});
    SPELT(half_t, row(i64, i64), 3,
          TiledCopy<Copy_Atom<UniversalCopy<uint32_t>, half_t>,
                    Layout<Shape<Shape<_4, _8>, Shape<_2, _2>>, Stride<Stride<_32, _1>, Stride<_16, _8>>>,
                    Tile<_16, _8>>{});
    SPELT(half_t, row(i64, i64), 17,
          make_tiled_copy_impl(Copy_Atom<UniversalCopy<uint64_t>, half_t>{},
                               Layout<Shape<Shape<_4, _8>, _4>, Stride<Stride<_32, _1>, _8>>{},
                               Tile<Layout<_8, _2>, _16>{}));
#endif
}
