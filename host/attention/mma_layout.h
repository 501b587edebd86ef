/* mma_layout.h - private: which thread of the mma.sync attention kernel touches which element of
 * shared memory, derived from the row's tiles with the layout algebra: the source of the symbols that the
 * kernel is told (mma_symbols.h) and of what `ptxpack plan` prints. */
#ifndef PTXPACK_ATTENTION_LAYOUT_H
#define PTXPACK_ATTENTION_LAYOUT_H
#include "host/layout/banks.h"
#include "host/dtype.h"
#include "loader/registry.h"
#include "host/atom/tiled.h"

/* Every access to shared memory, in the order of a tile's life. */
typedef enum attention_access_id {
    ACCESS_LOAD_Q,  /* global -> Q tile, 16 bytes a thread */
    ACCESS_LOAD_KV, /* global -> K or V tile               */
    ACCESS_Q,       /* ldmatrix.x4 of Q: operand A         */
    ACCESS_K,       /* ldmatrix.x4 of K: operand B         */
    ACCESS_V,       /* ldmatrix.x4.trans of V: operand B   */
    ACCESS_O_STORE, /* accumulators -> Q tile              */
    ACCESS_O_LOAD,  /* Q tile -> global                    */
    ACCESS_COUNT
} attention_access_id;

typedef struct attention_access {
    const char    *name;
    const char    *atom;    /* the copy atom's name; of plain stores the instruction */
    int            bytes;   /* of a thread, each time */
    bool           of_q;    /* in the Q tile */
    ptxpack_layout offsets; /* (thread, step along rows, step along columns) -> element of its tile, before
                               the swizzle */
} attention_access;

typedef struct attention_layout {
    ptxpack_status    status;
    int64_t           head_dim, block_m, block_n, warps, m_tiles, stages, mma_k;
    bool              cp_async;
    ptxpack_tiled_mma mma;               /* the warps' m16n8k16; with MMA_K = 8 two instructions make one */
    ptxpack_swizzle   swizzle;           /* of all tiles, over elements: the one that removes all conflicts */
    ptxpack_layout    plain_q, plain_kv; /* (row, column) -> element of the tile */
    ptxpack_layout    q, kv;             /* the same, swizzled */
    attention_access  access[ACCESS_COUNT];
    /* (thread, step along rows, step along columns) -> (row, column) of what it copies, or holds of C */
    ptxpack_layout load_place, o_load_place, c_place;
    int64_t        smem_q, smem_k, smem_v, stage_bytes, shared_bytes; /* bytes; Q, STAGES K, STAGES V */
} attention_layout;

/* PTXPACK_E_UNSUPPORTED, with a line in ptxpack_detail(NULL), when the row contradicts itself.  That is
 * l->status, too. */
ptxpack_status ptxpack_attention_layout(const ptxpack_variant *row, attention_layout *l);
/* The same, of a row of kernels.def derived once in a process: it never changes.  Otherwise, and when it
 * is not PTXPACK_OK, the result is *own, too, which the caller frees (NULL is fine).  NULL: no memory,
 * with a line. */
const attention_layout *ptxpack_attention_layout_of(const ptxpack_variant *row, attention_layout **own);
/* The MMA atom that the row's kernel issues for such inputs; with mma_k 8 twice for each 16 k. */
const char *ptxpack_attention_instruction(const attention_layout *l, ptxpack_dtype dtype);
/* Conflicts that the hardware will see in one access. */
ptxpack_banks ptxpack_attention_banks(const attention_layout *l, attention_access_id id);
#endif
