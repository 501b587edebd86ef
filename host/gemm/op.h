/* op.h - private: GEMM as an operation of the spine, and what its methods share.
 *
 * mma.c has the methods of the rows of ptx/gemm/mma.ptx and mma_groups.ptx, wgmma.c those of ptx/gemm/wgmma.ptx,
 * wgmma_parts.ptx, wgmma_fp8.ptx and wgmma_groups.ptx, and rows_tma.c and rows.c those of ptx/gemm/rows_tma.ptx, rows_norm.ptx, rows_e4m3.ptx
 * and rows.ptx, which come first: for few rows.  rows_groups.c has that of rows_groups_e4m3.ptx, for groups of rows with a B of e4m3. */
#ifndef PTXPACK_GEMM_OP_H
#define PTXPACK_GEMM_OP_H
#include "check.h"
#include "mma_args.h"
#include "rows_args.h"
#include "rows_tma_args.h"
#include "wgmma_args.h"

typedef union gemm_arguments {
    gemm_mma_arguments          mma;
    gemm_mma_groups_arguments   mma_groups;
    gemm_wgmma_arguments        wgmma;
    gemm_wgmma_fp8_arguments    wgmma_fp8;
    gemm_wgmma_parts_arguments  wgmma_parts;
    gemm_wgmma_groups_arguments wgmma_groups;
    gemm_rows_arguments         rows;
    gemm_rows_tma_arguments     rows_tma;
    gemm_rows_norm_arguments    rows_norm;
    gemm_rows_e4m3_arguments    rows_e4m3;
    gemm_rows_groups_arguments  rows_groups;
} gemm_arguments;

struct ptxpack_gemm_plan {
    plan_head      head;
    gemm_geometry  geometry;
    gemm_arguments arguments; /* all but what a launch brings */
};

extern const plan_op     gemm_op; /* its descriptor is a ptxpack_gemm_desc */
extern const plan_method gemm_mma, gemm_wgmma, gemm_wgmma_fit, gemm_wgmma_parts, gemm_wgmma_fp8, gemm_rows,
    gemm_rows_tma, gemm_rows_norm, gemm_rows_e4m3;
extern const plan_method gemm_mma_groups, gemm_wgmma_groups,
    gemm_rows_groups; /* of products of groups of rows */
extern const plan_struct gemm_desc_struct;

/* ptxpack_gemm_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_gemm_plan_row(ptxpack *handle, const ptxpack_gemm_desc *desc, const ptxpack_variant *row,
                                     ptxpack_gemm_plan **plan);

/* What sets one build of a row apart from the others: BF16, A_COLUMN, B_COLUMN (1: column-major), HAS_C,
 * HAS_BIAS, ACTIVATION (the number of ptxpack_activation; ptx/gemm/activation.ptx) and RAGGED. */
void gemm_build_symbols(const ptxpack_gemm_desc *desc, bool ragged, symbol_list *list);

/* plan_method.corners of mma and wgmma: those of SwiGLU come last. */
enum { GEMM_CORNERS = 10, GEMM_PLAIN_CORNERS = 8 };
extern const uint16_t gemm_corners[GEMM_CORNERS];
/* Those of the methods of few rows. */
enum { GEMM_ROWS_CORNERS = 3 };
extern const uint16_t gemm_rows_corners[GEMM_ROWS_CORNERS];

/* Those of products of groups of rows: bare, with GELU and bias, with SwiGLU and bias. */
enum { GEMM_GROUPS_CORNERS = 3, GEMM_GROUPS_PLAIN_CORNERS = 2 };
extern const uint16_t gemm_groups_corners[GEMM_GROUPS_CORNERS];

/* What the rows of ptx/gemm/rows.ptx and rows_groups_e4m3.ptx say: the rows and columns of a tile, blocks of k in flight, and the warps
 * whose sums shared memory holds; and their plan_method.derive. */
typedef struct gemm_rows_layout {
    int64_t rows, columns, unroll, warps;
} gemm_rows_layout;
gemm_rows_layout gemm_rows_layout_of(const ptxpack_variant *row);
ptxpack_status   gemm_rows_derive(const ptxpack_variant *row, void *out);

/* So many rows of so many tiles, groups of `group` rows of tiles one after another. */
gemm_tile_order gemm_order_tiles(int64_t tiles_m, int64_t tiles_n, int64_t group);

/* How many tiles of `height` rows groups with `rows` rows in all have: at most, and where sizes are as they come. */
double gemm_groups_most_tiles(int32_t groups, int32_t rows, int64_t height);
double gemm_groups_usual_tiles(int32_t groups, int32_t rows, int64_t height);

/* Whether a row is of one of the methods of groups; whether it normalises A; whether it takes an A of 16 bits and a B of e4m3. */
bool gemm_is_of_groups(const ptxpack_variant *row);
bool gemm_normalises(const ptxpack_variant *row);
bool gemm_takes_b_alone(const ptxpack_variant *row);

/* Whether a row of ptx/gemm/wgmma.ptx has SwiGLU: 128 columns of the tile are 64 of D, a box, and one block sums them. */
bool gemm_wgmma_gates(const ptxpack_variant *row);
#endif
