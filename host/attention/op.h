/* op.h - private: attention as an operation of the spine, and what its methods share.
 *
 * Each method belongs to the rows of one file: mma.c to ptx/attention/mma.ptx, wgmma.c to wgmma.ptx, and decode.c
 * to decode.ptx, for few query rows. */
#ifndef PTXPACK_ATTENTION_OP_H
#define PTXPACK_ATTENTION_OP_H
#include "check.h"
#include "mma_args.h"
#include "wgmma_args.h"

typedef union attention_arguments {
    attention_mma_arguments    mma;
    attention_wgmma_arguments  wgmma;
    attention_decode_arguments decode;
} attention_arguments;

struct ptxpack_attention_plan {
    plan_head                             head;
    attention_geometry                    geometry;
    attention_arguments                   arguments; /* all but what a launch brings */
    struct ptxpack_attention_append_plan *append;    /* what a launch does before; NULL: nothing */
};

extern const plan_op     attention_op; /* its descriptor is a ptxpack_attention_desc */
extern const plan_method attention_mma, attention_wgmma, attention_decode;

/* The builds of attention by their index: 4 kind + 2 padded + softcap; from ATTENTION_SINKS_BUILDS on those with sinks, 2
 * kind + padded, and from ATTENTION_ALIBI_BUILDS on those with ALiBi; from ATTENTION_PAST_BUILDS on with ALiBi and no key
 * behind a query, from ATTENTION_CHUNK_BUILDS on with chunks, and from ATTENTION_LIST_BUILDS on with lists of blocks, of the
 * first kinds; the last ones are causal, with keys that arrive.  Rows for k and v of bytes have builds for int8 in the
 * place of ATTENTION_PAST_BUILDS, and the others for e4m3; those for blocks end before ATTENTION_ALIBI_BUILDS.  Builds with two of softcap, sinks, ALiBi and chunks are not
 * in the list: they are compiled when a plan asks for them.  (attention.c has the kinds.) */
enum {
    ATTENTION_BUILD_KINDS = 44,
    ATTENTION_BYTES_CORNERS = 3, /* of rows for k and v of bytes, the first ones: attention.c */
    ATTENTION_SINKS_BUILDS = 4 * ATTENTION_BUILD_KINDS,
    ATTENTION_ALIBI_BUILDS = ATTENTION_SINKS_BUILDS + 2 * ATTENTION_BUILD_KINDS,
    ATTENTION_PAST_BUILDS = ATTENTION_ALIBI_BUILDS + 2 * ATTENTION_BUILD_KINDS,
    ATTENTION_CHUNK_BUILDS = ATTENTION_PAST_BUILDS + 2 * ATTENTION_BUILD_KINDS,
    ATTENTION_LIST_BUILDS = ATTENTION_CHUNK_BUILDS + 2 * ATTENTION_BUILD_KINDS,
    ATTENTION_ARRIVAL_BUILDS = ATTENTION_LIST_BUILDS + 2 * 4,
    ATTENTION_BUILDS = ATTENTION_ARRIVAL_BUILDS + 2
};

/* ptxpack_attention_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_attention_plan_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                          const ptxpack_variant *row, ptxpack_attention_plan **plan);

/* What kernels are told of sequences with lengths of their own; all 0 of others. */
attention_lengths_numbers attention_count_lengths(const ptxpack_attention_desc *desc,
                                                  const attention_geometry     *geometry);
/* What kernels are told of chunks; all 0 without. */
attention_chunks_arguments attention_count_chunks(const attention_geometry *geometry);
/* What kernels are told of lists of blocks, with steps of `block_n` keys; all 0 without.  The arrays that a launch brings. */
attention_list_numbers   attention_count_lists(const attention_geometry *geometry, int64_t block_n);
attention_list_addresses attention_find_lists(const attention_geometry        *geometry,
                                              const ptxpack_attention_buffers *buffers);
/* From one sequence to the next in the LSE, in elements. */
int64_t attention_lse_batch(const ptxpack_attention_desc *desc);
/* For methods whose kernels add reaches to rows in 32 bits: NULL, or `line`. */
const char *attention_refuse_reach(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                   char line[PLAN_LINE]);
/* For rows of mma.sync: tanh.approx needs PTX ISA 7.0, and some of them need less.  NULL, or `line`. */
const char *attention_refuse_softcap(const plan_problem *problem, const ptxpack_variant *row,
                                     char line[PLAN_LINE]);
/* The arrays that a launch brings. */
attention_addresses attention_find_addresses(const attention_geometry        *geometry,
                                             const ptxpack_attention_buffers *buffers);

/* The query tiles of a problem, in the order in which all kernels number them. */
typedef struct attention_tiles {
    int32_t tiles_q;       /* of a head */
    int32_t heads_total;   /* batch * heads_q */
    int32_t tiles_total;   /* their product */
    int32_t section_heads; /* heads whose tiles are neighbours */
} attention_tiles;

/* The key blocks of a problem, as the rows of decode.ptx share them: a list of all tiles' blocks, tile by tile, cut
 * into ranges, one for each block of the grid. */
typedef struct attention_ranges {
    int64_t rows, group;        /* of a key head; query heads that share it */
    int64_t row_tiles;          /* tiles of a key head */
    int64_t first_key, end;     /* the keys that any row sees */
    int64_t tiles, tile_blocks; /* key blocks of a tile, at least one */
    int64_t tile_padded;        /* its places in the list: whole parts if `fixed`, or whole ranges */
    int64_t part, parts;        /* key blocks of a part: of what is summed at a time; their number at most */
    bool    fixed;              /* the descriptor says the part; otherwise parts are ranges */
    int64_t range;              /* key blocks of a range */
    int64_t grid;               /* blocks of the grid, one for each range, and at most one more */
    int64_t tile_ranges;        /* ranges of a tile, where all tiles begin with a range; or 1 */
    int64_t order, apart;       /* whole tiles in a range, so far apart; or 1 */
} attention_ranges;
attention_ranges attention_decode_ranges(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                         const ptxpack_variant *row, const ptxpack_device_caps *caps,
                                         int sm_count);

/* Counts them for blocks of `block_m` rows.  PTXPACK_E_UNSUPPORTED, with `line`, when 32 bits do not hold their
 * number, or the numbers of rows and keys up to a block beyond the last one. */
ptxpack_status attention_count_tiles(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                     int64_t block_m, attention_tiles *tiles, char line[PLAN_LINE]);
/* The tiles of `block_m` rows that a launch may have at most, whatever its sequences' lengths: of packed
 * rows a sequence has at most one block that is not full. */
int64_t attention_most_tiles(const ptxpack_attention_desc *desc, int64_t block_m);
#endif
