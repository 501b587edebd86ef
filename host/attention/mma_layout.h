/* mma_layout.h - private: which thread of the mma.sync attention kernel touches which element of
 * shared memory, derived from the row's tiles with the layout algebra: the source of the symbols that the
 * kernel is told (mma_symbols.h) and of what `ptxpack plan` prints. */
#ifndef PTXPACK_ATTENTION_MMA_LAYOUT_H
#define PTXPACK_ATTENTION_MMA_LAYOUT_H
#include "host/plan/tiles.h"

/* Every access to shared memory, in the order of a tile's life. */
typedef enum attention_mma_access_id {
    MMA_ACCESS_LOAD_Q,  /* global -> Q tile, 16 bytes a thread */
    MMA_ACCESS_LOAD_KV, /* global -> K or V tile */
    MMA_ACCESS_Q,       /* ldmatrix.x4 of Q: operand A */
    MMA_ACCESS_K,       /* ldmatrix.x4 of K: operand B */
    MMA_ACCESS_V,       /* ldmatrix.x4.trans of V: operand B */
    MMA_ACCESS_O_STORE, /* accumulators -> Q tile */
    MMA_ACCESS_O_LOAD,  /* Q tile -> global */
    MMA_ACCESS_COUNT
} attention_mma_access_id;

typedef struct attention_mma_access {
    const char *name;
    const char *atom;  /* the copy atom's name; of plain stores the instruction */
    int         bytes; /* of a thread, each time */
    bool        of_q;  /* in the Q tile */
    /* (thread, step along rows, step along columns) -> element of its tile, before the swizzle. */
    ptxpack_layout offsets;
} attention_mma_access;

typedef struct attention_mma_layout {
    ptxpack_status status;
    int64_t        head_dim, block_m, block_n, warps, m_tiles, stages, mma_k;
    int64_t        rows;       /* ROWS of attention/decode.ptx */
    int64_t        kv_columns; /* 16-bit elements of a row of K or V: half of head_dim where these are bytes */
    int64_t        slot; /* bytes between rows of blocks of q8_0 that become fragments in registers; else 0 */
    bool           cp_async, blocks; /* other blocks of q8_0, which become f16 in shared memory */
    ptxpack_tiled_mma    mma;        /* the warps' m16n8k16; with MMA_K = 8 two instructions make one */
    ptxpack_swizzle      swizzle;    /* of all tiles, over elements: the one that removes all conflicts */
    ptxpack_layout       plain_q, plain_kv; /* (row, column) -> element of the tile */
    ptxpack_layout       q, kv;             /* the same, swizzled */
    attention_mma_access access[MMA_ACCESS_COUNT];
    /* (thread, step along rows, step along columns) -> (row, column) of what it copies, or holds of C */
    ptxpack_layout load_place, o_load_place, c_place;
    int64_t        smem_q, smem_k, smem_v, stage_bytes, shared_bytes; /* bytes; Q, STAGES K, STAGES V */
    int64_t        smem_raw_k, smem_raw_v; /* of blocks: STAGES tiles of each; then K and V are one tile */
    int64_t        smem_factors;           /* of bytes, after these: a number for each row of Q, of mma.ptx */
} attention_mma_layout;

/* PTXPACK_E_UNSUPPORTED, with a line in ptxpack_detail(NULL), when the row contradicts itself.  That is
 * l->status, too. */
ptxpack_status ptxpack_attention_mma_layout(const ptxpack_variant *row, attention_mma_layout *l);
/* The same for a row of ptx/attention/decode.ptx, where each warp works alone: of one of its warps, which owns
 * one tile of 16 rows.  At offset 0 lie Q and later the warp's O in f32; shared_bytes are those of a warp. */
ptxpack_status ptxpack_attention_decode_layout(const ptxpack_variant *row, attention_mma_layout *l);
/* The conflicts that the hardware sees in one access. */
ptxpack_banks ptxpack_attention_mma_banks(const attention_mma_layout *l, attention_mma_access_id id);
#endif
