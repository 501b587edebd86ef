/* gemm.h - D = activation(alpha A B + beta C + bias) on matrices in half precision, with sums in f32; A and B may be e4m3,
 * with scales, or B alone.
 *
 * A is m x k, B is k x n, and C and D are m x n (with SwiGLU D is m x n / 2).  The contracts are those of attention.h: a plan does all that
 * is slow, and threads may share it.  A launch only fills arguments and launches, and it can be captured in a
 * CUDA graph.  Device memory belongs to the caller.  The kernels are ptx/gemm/wgmma.ptx (sm_90a), ptx/gemm/mma.ptx
 * (from sm_75 on), and for few rows of one row-major A and a column-major B, n and k multiples of 8, ptx/gemm/rows_tma.ptx (sm_90,
 * up to 32, k a multiple of 64) and ptx/gemm/rows.ptx (from sm_75 on, up to 64), which read B once and may want a workspace; A and B of
 * e4m3 are multiplied by ptx/gemm/wgmma_fp8.ptx (sm_90a), few rows of 16 bits and a B of e4m3 by ptx/gemm/rows_e4m3.ptx (sm_90),
 * few rows with their RMSNorm by ptx/gemm/rows_norm.ptx (sm_90),
 * and the products of groups of rows by ptx/gemm/wgmma_groups.ptx (sm_90a) and ptx/gemm/mma_groups.ptx (from sm_75 on), with a B of e4m3
 * by ptx/gemm/rows_groups_e4m3.ptx (from sm_80 on), which is for few rows a group and takes any number.  C11 and C++; this header
 * needs no CUDA header. */
#ifndef PTXPACK_GEMM_H
#define PTXPACK_GEMM_H
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct ptxpack_gemm_plan ptxpack_gemm_plan;

/* A line is a row of a row-major matrix, or a column of a column-major one.  Its elements are contiguous. */
typedef enum ptxpack_order { PTXPACK_ROW_MAJOR, PTXPACK_COLUMN_MAJOR } ptxpack_order;
typedef enum ptxpack_activation {
    PTXPACK_ACTIVATION_NONE,
    PTXPACK_ACTIVATION_RELU,
    PTXPACK_ACTIVATION_GELU, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), by tanh.approx */
    PTXPACK_ACTIVATION_SILU, /* x / (1 + exp(-x)) */
    /* silu(gate) up, where D has n / 2 columns: of each 16 columns of B (and of the bias), a multiple of which n is, the
     * first 8 are gates, and the last 8 what they multiply: column 16 i + j of B, j < 8, and column 16 i + 8 + j make
     * column 8 i + j of D.  Without C. */
    PTXPACK_ACTIVATION_SWIGLU
} ptxpack_activation;

/* What an element of A, and one of B, of PTXPACK_E4M3 means: itself times a scale, a float in device memory.  Element
 * (row, i) of A and (i, column) of B have the scales
 *   PTXPACK_SCALES_TENSOR   scale_a[0], scale_b[0]; where the address is 0, that is 1
 *   PTXPACK_SCALES_LINES    scale_a[row], scale_b[column]; of each matrix there are m, n
 *   PTXPACK_SCALES_BLOCKS   scale_a[row][i / 128], scale_b[column / 128][i / 128]; of each matrix there are
 *                           m x (k / 128, rounded up), and n / 128 times k / 128, both rounded up
 * An A of 16 bits has none.  quantise.h makes e4m3 with scales of lines, and of blocks those of A.
 * In a batch, and with groups, the scales of a matrix follow those of the matrix before, of PTXPACK_SCALES_TENSOR there is one for all of
 * them, and an A or a B of all products has scales once.
 * Tensor cores keep only 13 bits after the point of a sum of e4m3: the sums of each 128 of k are added in f32. */
typedef enum ptxpack_gemm_scales {
    PTXPACK_SCALES_TENSOR,
    PTXPACK_SCALES_LINES,
    PTXPACK_SCALES_BLOCKS
} ptxpack_gemm_scales;
enum { PTXPACK_SCALE_BLOCK = 128 };

typedef struct ptxpack_gemm_desc {
    uint32_t      size;             /* = sizeof(ptxpack_gemm_desc); an older one is fine */
    ptxpack_dtype dtype;            /* of A, B, C, D and bias: PTXPACK_F16 or PTXPACK_BF16 */
    int32_t       m, n, k;          /* m and n are 1 or more, k is 0 or more */
    int32_t       batch;            /* the number of products; 0 counts as 1 */
    ptxpack_order order_a, order_b; /* C and D are row-major */
    /* Elements from a line to the next: multiples of 8, of e4m3 of 16.  0 means that the lines are packed.  The stride of a
     * matrix with only one line is ignored. */
    int64_t stride_a, stride_b, stride_c, stride_d;
    /* Elements from a matrix to the next: multiples of 8, of e4m3 of 16.  0 means that the matrices are packed, and -1 means
     * one matrix for the whole batch (not for D). */
    int64_t            batch_a, batch_b, batch_c, batch_d;
    bool               has_c;    /* add beta C, for any beta */
    bool               has_bias; /* add n values, one for each column, the same for all rows and matrices */
    ptxpack_activation activation;
    /* Of A and B; 0: as dtype.  PTXPACK_E4M3 needs a row-major A, a column-major B, and an n that is a multiple of 8; with
     * scales of blocks k is 1 or more. */
    ptxpack_dtype       dtype_ab;
    ptxpack_gemm_scales scales; /* of PTXPACK_E4M3; otherwise 0 */
    /* 0, or the number of products whose rows of A and D follow one another, each with a B of its own, as the experts of a
     * mixture have: m is the capacity, the rows of all of them together, and each launch reads on the device which rows are
     * whose (ptxpack_gemm_buffers.group_starts).  B is `groups` matrices, batch_b elements apart (0: packed), and with a bias
     * there are groups x n values.  This takes a row-major A of dtype, a column-major B of dtype or dtype_b, a batch of 1 and no C. */
    int32_t groups; /* up to PTXPACK_GEMM_GROUPS */
    /* Of B alone; 0: as dtype_ab.  PTXPACK_E4M3 with a dtype_ab of 0 or dtype: A has 16 bits, as decoding with quantised weights wants
     * it, whose time is that of reading B.  (dtype_ab always meant A, too.)  It needs up to 32 rows of one row-major A, a
     * column-major B, an n that is a multiple of 8, and a k that is one of 128, above 0; with groups any number of rows, an n that
     * is a multiple of 8, and a k that is one of 16. */
    ptxpack_dtype dtype_b;
    /* RMSNorm(A) takes A's place, as norm.h has it without options, with the weights ptxpack_gemm_buffers.norm_w:
     *   D = activation(alpha r (A w) B + beta C + bias),   r[i] = 1 / sqrt(sum over j of A[i][j]^2 / k + norm_eps)
     * (A w)[i][j] = A[i][j] norm_w[j] is rounded to dtype; the factor r of a row is computed in f32 and applied to the sums in f32,
     * so that what norm.h rounds once is rounded once here, too, in another place: of f16 A w must be in its range.  A sum of
     * squares beyond f32 makes r 0.  It needs up to 32 rows of one row-major A, a column-major B of dtype, an n that is a multiple
     * of 8, and a k that is one of 64, above 0. */
    bool  norm_a;
    float norm_eps; /* with norm_a: > 0; otherwise 0 */
    /* What ptxpack_gemm_buffers.launch will mostly be, for the choice of the kernel: a launch may have any other bits, too.  With
     * PTXPACK_LAUNCH_CONSTANT_B what matters for 17 to 128 rows is how much of B can be read before the kernel before has ended, and that it
     * is read once; otherwise how soon one launch ends. */
    uint32_t launch;
    uint32_t reserved; /* 0 */
} ptxpack_gemm_desc;
enum { PTXPACK_GEMM_GROUPS = 1 << 20 };

typedef struct ptxpack_gemm_buffers {
    uint32_t size; /* = sizeof(ptxpack_gemm_buffers); an older one is fine */
    /* Without a C beta is ignored.  A factor of 0 does not hide what it multiplies: 0 times NaN or infinity is
     * NaN. */
    float alpha, beta;
    /* Device addresses, multiples of 16 bytes.  c may be equal to d if the strides of both are the same; no
     * other buffer may overlap d.  If k is 0, a and b are ignored. */
    uint64_t a, b, c, d, bias;
    /* The address of ptxpack_gemm_workspace bytes, which are zero before the first use.  Each launch leaves
     * them ready for the next one.  Launches that may run at the same time need a workspace each;
     * PTXPACK_LAUNCH_OVERLAP does not make them so. */
    uint64_t workspace;
    uint32_t launch;   /* bits: PTXPACK_LAUNCH_OVERLAP, PTXPACK_LAUNCH_CONSTANT_B (loader.h) */
    uint32_t reserved; /* 0 */
    /* Device addresses of floats (ptxpack_gemm_scales), multiples of 16 bytes, of PTXPACK_SCALES_TENSOR of 4. */
    uint64_t scale_a, scale_b;
    /* With groups: the device address of int32_t[groups + 1], a multiple of 4.  Group g has the rows from group_starts[g] up to
     * group_starts[g + 1], which may be none.  The first start is 0, and starts never decrease; one beyond m counts as m.  Of
     * other starts rows of D may be wrong, but nothing outside of the matrices is read or written.  Each launch reads them on
     * the device, so that a captured graph that is replayed takes the starts of then.  Rows of A from the last start on mean
     * nothing, and those of D are not written. */
    uint64_t group_starts;
    /* With norm_a: the device address of k weights of dtype, a multiple of 16. */
    uint64_t norm_w;
} ptxpack_gemm_buffers;

/* Check `desc`, choose the kernel, compile it or find its machine code, and load it.  *plan belongs to the
 * caller, who frees it before closing the handle.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is malformed: the detail names it
 *   PTXPACK_E_UNSUPPORTED  no kernel for this device covers the problem: the detail says why
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_gemm_plan_create(ptxpack *handle, const ptxpack_gemm_desc *desc,
                                                    ptxpack_gemm_plan **plan);
PTXPACK_API void           ptxpack_gemm_plan_free(ptxpack_gemm_plan *plan);       /* NULL is allowed */
PTXPACK_API size_t         ptxpack_gemm_workspace(const ptxpack_gemm_plan *plan); /* bytes; 0: none is needed */
PTXPACK_API const ptxpack_kernel *ptxpack_gemm_kernel(const ptxpack_gemm_plan *plan);
/* Enqueue the kernel on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG   an address is missing or misaligned, buffers overlap, or `launch` has unknown bits: the detail
 *                   names it
 *   PTXPACK_E_DRIVER, _E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_gemm_launch(const ptxpack_gemm_plan    *plan,
                                               const ptxpack_gemm_buffers *buffers, struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
