/* mma.c - the rows of ptx/gemm/mma.ptx: which one, symbols, arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "mma_symbols.h"

/* ---- symbols ------------------------------------------------------------------------------------ */
static size_t layout_symbols(const ptxpack_variant *row, gemm_build build, ptxpack_symbol *out, size_t cap)
{
    gemm_mma_layout       *own;
    const gemm_mma_layout *layout = ptxpack_gemm_mma_layout_of(row, &own);
    size_t                 count = 0;
    if (layout != NULL && layout->status == PTXPACK_OK) {
        count = ptxpack_gemm_mma_layout_symbols(layout, build.a_column, build.b_column, out, cap);
        if (count == 0)
            ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, ptxpack_detail(NULL));
    }
    free(own);
    return count;
}

static size_t symbols_of(const ptxpack_variant *row, gemm_build build,
                         ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS])
{
    const ptxpack_symbol fixed[] = {{"ARG_BYTES", GEMM_MMA_ARGUMENT_BYTES},
#define GEMM_MMA_SYMBOL(type, name, symbol) {symbol, offsetof(gemm_mma_arguments, name)},
                                    GEMM_MMA_ARGUMENTS(GEMM_MMA_SYMBOL)
#undef GEMM_MMA_SYMBOL
    };
    enum { FIXED = sizeof fixed / sizeof fixed[0], ALL_FIXED = FIXED + GEMM_BUILD_SYMBOLS };
    _Static_assert(ALL_FIXED < (int)PTXPACK_INSTANCE_SYMBOLS, "instances have room for more");
    memcpy(symbols, fixed, sizeof fixed);
    build.ragged = false; /* one text for both: it stores what is left of a row element by element */
    ptxpack_gemm_build_symbols(build, symbols + FIXED);
    size_t count = layout_symbols(row, build, symbols + ALL_FIXED, PTXPACK_INSTANCE_SYMBOLS - ALL_FIXED);
    return count > 0 ? ALL_FIXED + count : 0;
}

/* ---- the choice --------------------------------------------------------------------------------- */
static int64_t blocks_of(int64_t extent, int64_t block) { return (extent + block - 1) / block; }

static int64_t parameter(const ptxpack_variant *row, const char *name)
{
    return ptxpack_variant_parameter(row, name, 1);
}

static double tiles_of(const ptxpack_variant *row, const ptxpack_gemm_desc *desc, const gemm_geometry *g)
{
    return (double)g->batch * (double)blocks_of(desc->m, parameter(row, "BLOCK_M")) *
           (double)blocks_of(desc->n, parameter(row, "BLOCK_N"));
}

/* The kernel's 32-bit registers hold byte strides, numbers of rows, columns and k up to a block beyond the
 * last, and of tiles; tanh.approx came with PTX ISA 7.0, later than some rows want. */
static const char *refusal(const ptxpack *handle, const ptxpack_variant *row, const ptxpack_gemm_desc *desc,
                           const gemm_geometry *g, char line[GEMM_LINE])
{
    enum { TANH_ISA = 70, EXTENT_LIMIT = INT32_MAX - 4096, STRIDE_LIMIT = INT32_MAX / 2 };
    const int isa = gemm_caps(handle).isa;
    for (int i = 0; i < GEMM_MATRICES; i++)
        if ((i != GEMM_C || desc->has_c) && g->matrix[i].lines > 1 && g->matrix[i].stride > STRIDE_LIMIT) {
            snprintf(line, GEMM_LINE, "stride_%s: %lld exceeds %d elements", gemm_matrix_names[i],
                     (long long)g->matrix[i].stride, (int)STRIDE_LIMIT);
            return line;
        }
    const int32_t extents[] = {desc->m, desc->n, desc->k};
    for (int i = 0; i < 3; i++)
        if (extents[i] > EXTENT_LIMIT) {
            snprintf(line, GEMM_LINE, "%c is %d, more than %d", "mnk"[i], (int)extents[i], (int)EXTENT_LIMIT);
            return line;
        }
    if (tiles_of(row, desc, g) > INT32_MAX) {
        snprintf(line, GEMM_LINE, "m %d, n %d, batch %d are %.0f tiles, more than %d", (int)desc->m,
                 (int)desc->n, (int)g->batch, tiles_of(row, desc, g), INT32_MAX);
        return line;
    }
    if (desc->activation == PTXPACK_ACTIVATION_GELU && row->isa < TANH_ISA && isa < TANH_ISA) {
        snprintf(line, GEMM_LINE, "activation: GELU needs PTX ISA 7.0, and here it is %d.%d", isa / 10,
                 isa % 10);
        return line;
    }
    return NULL;
}

/* The work of the tiles that the busiest SM has, by how fast the row is where all SMs are busy for long:
 * SPEED, in percent of the fastest row's. */
static double cost(const ptxpack_variant *row, const ptxpack_gemm_desc *desc, const gemm_geometry *g,
                   int sm_count)
{
    int64_t tiles = blocks_of((int64_t)tiles_of(row, desc, g), sm_count > 0 ? sm_count : 1);
    return (double)tiles * (double)parameter(row, "BLOCK_M") * (double)parameter(row, "BLOCK_N") /
           (double)parameter(row, "SPEED");
}

/* ---- the plan ----------------------------------------------------------------------------------- */
/* So many rows of tiles that the tiles which run at a time are about a square of D: they share the most of A
 * and of B. */
static int32_t group_of(const ptxpack_variant *row, int sm_count, int64_t tiles_m)
{
    double  at_once = (double)row->blocks_per_sm * (sm_count > 0 ? sm_count : 1);
    double  m = (double)parameter(row, "BLOCK_M"), n = (double)parameter(row, "BLOCK_N");
    int32_t group = 1;
    while (group < tiles_m && (group + 1) * m * (group + 1) * m <= at_once * m * n)
        group++;
    return group;
}

/* Of one line the stride means nothing. */
static int32_t line_of(const gemm_matrix *x)
{
    return x->lines > 1 ? (int32_t)(x->stride * (int64_t)sizeof(uint16_t)) : 0;
}

static void fill_lines(gemm_mma_arguments *a, const gemm_geometry *g)
{
    enum { ELEMENT = sizeof(uint16_t) };
    const gemm_matrix *x = g->matrix;
    a->a_batch = x[GEMM_A].batch * ELEMENT;
    a->b_batch = x[GEMM_B].batch * ELEMENT;
    a->c_batch = x[GEMM_C].batch * ELEMENT;
    a->d_batch = x[GEMM_D].batch * ELEMENT;
    a->a_line = line_of(&x[GEMM_A]);
    a->b_line = line_of(&x[GEMM_B]);
    a->c_line = line_of(&x[GEMM_C]);
    a->d_line = line_of(&x[GEMM_D]);
}

static ptxpack_status fill(const ptxpack *handle, const ptxpack_variant *row, const ptxpack_gemm_desc *desc,
                           ptxpack_gemm_plan *plan)
{
    const gemm_geometry *g = &plan->geometry;
    int64_t              tiles_m = blocks_of(desc->m, parameter(row, "BLOCK_M"));
    int64_t              tiles_n = blocks_of(desc->n, parameter(row, "BLOCK_N"));
    gemm_mma_arguments  *a = &plan->arguments.mma;
    *a = (gemm_mma_arguments){
        .m = desc->m,
        .n = desc->n,
        .k = desc->k,
        .blocks = (int32_t)blocks_of(desc->k, parameter(row, "BLOCK_K")),
        .tiles_m = (int32_t)tiles_m,
        .matrix_tiles = (int32_t)(tiles_m * tiles_n),
        .group_m = group_of(row, ptxpack_device(handle)->sm_count, tiles_m),
    };
    a->group_tiles = (int32_t)(a->group_m * tiles_n);
    fill_lines(a, g);
    plan->grid[0] = (uint32_t)(tiles_m * tiles_n * g->batch);
    plan->grid[1] = plan->grid[2] = 1;
    return PTXPACK_OK;
}

static ptxpack_status address(const ptxpack_gemm_plan *plan, const ptxpack_gemm_buffers *buffers,
                              gemm_any_arguments *arguments)
{
    gemm_mma_arguments *a = &arguments->mma;
    *a = plan->arguments.mma;
    a->a = buffers->a;
    a->b = buffers->b;
    a->c = buffers->c;
    a->d = buffers->d;
    a->bias = buffers->bias;
    a->alpha = buffers->alpha;
    a->beta = buffers->beta;
    return PTXPACK_OK;
}

const gemm_kernel gemm_mma = {
    .file = "gemm/mma.ptx",
    .refusal = refusal,
    .cost = cost,
    .symbols = symbols_of,
    .fill = fill,
    .address = address,
};
