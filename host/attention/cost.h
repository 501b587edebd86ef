/* cost.h - private: a small model of the time that a row of kernels.def would take for a problem: it decides
 * among the rows that cover the problem.
 *
 *   time  = launch + max(longest tile, work / slots + unevenness, keys / memory's speed)
 *   tile  = blocks visited * 4 BLOCK_M BLOCK_N HEAD_DIM / rate + prologue and epilogue
 *   slots = blocks that run at a time; those on one SM share its rate
 *
 * Where a row of wgmma.ptx has few tiles with many keys, these are cut into as many parts as give the least time; a
 * part costs the prologue and epilogue of a tile, its result is written, and the last one of a tile sums them.  The
 * order in which blocks take few items, parts or tiles of different lengths, is simulated.  Where query heads share a
 * key head, the model also tries tiles with the rows of all of them: few queries then make fewer tiles.
 *
 * The longest tiles start first, so that the unevenness at the end is one of the shortest tiles; where all
 * tiles are equal, the model counts whole waves.  Rate and overhead of each kind of row are measured on an
 * H200 and scaled for other architectures: there only the order of the rows means something.
 *
 * Rows of decode.ptx, which are bound by memory, have a model of their own (decode.c). */
#ifndef PTXPACK_ATTENTION_COST_H
#define PTXPACK_ATTENTION_COST_H
#include "check.h"
#include "loader/registry.h"

/* Key blocks of BLOCK_N that the kernel visits for the query tiles of one head. */
typedef struct attention_blocks {
    int64_t tiles, total, longest, shortest; /* shortest: of a tile */
} attention_blocks;
attention_blocks attention_count_blocks(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                        int64_t block_m, int64_t block_n);

/* The first key of a row whose left limit is key `at`, as a plan counts on it: with lengths in memory a chunk may be whole. */
int64_t attention_planned_key(const attention_geometry *geometry, int64_t at);

/* How the keys of a tile are cut into parts (ptx/attention/wgmma/split.ptx), and of how many query heads it has rows
 * (ptx/attention/wgmma/packed.ptx). */
typedef struct attention_split {
    bool    used;   /* false: the build without parts */
    int32_t most;   /* parts of a tile */
    int32_t blocks; /* of keys, in a part */
    int32_t group;  /* query heads of a tile: 1, or up to 16 that share a key head */
} attention_split;
attention_split attention_split_keys(const ptxpack_variant *row, const ptxpack_attention_desc *desc,
                                     const attention_geometry *geometry, const ptxpack_device_caps *caps,
                                     int sm_count);

/* The time in microseconds, for a problem with no more tiles than attention_count_tiles accepts.  sm_count 0
 * means that of a well-known GPU of the architecture. */
double attention_cost(const ptxpack_variant *row, const ptxpack_attention_desc *desc,
                      const attention_geometry *geometry, const ptxpack_device_caps *caps, int sm_count);

/* What the model knows of a device; where sm_count is 0, of a well-known part of the architecture. */
typedef struct attention_machine {
    int64_t sms;
    double  ghz, bytes; /* bytes that memory gives to an SM in a clock */
} attention_machine;
attention_machine attention_machine_of(const ptxpack_device_caps *caps, int sm_count);

/* The same, as plan_method.cost. */
double attention_row_cost(const plan_problem *problem, const ptxpack_variant *row);

/* A later row of the table is chosen only if the model gives it less than this share of the time of an earlier
 * one. */
#define ATTENTION_CLEARLY_FASTER 0.99
#endif
