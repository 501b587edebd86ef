/* wgmma_layout.h - private: the tiles of a row of ptx/attention/wgmma.ptx in shared memory: what TMA writes
 * there, what wgmma reads through descriptors, and which thread holds which accumulator.  They are derived
 * from the row with the layout algebra; the symbols of the kernel (wgmma_symbols.h), its tensor maps and the
 * output of `ptxpack plan` come from them. */
#ifndef PTXPACK_ATTENTION_WGMMA_LAYOUT_H
#define PTXPACK_ATTENTION_WGMMA_LAYOUT_H
#include "check.h"
#include "cost.h"
#include "host/plan/symbols.h"
#include "host/plan/tiles.h"

/* The fp8 V tile as TMA writes it, its transpose for wgmma, and which thread of a warpgroup moves what: the source of
 * the symbols of ptx/attention/wgmma_transpose_v.ptx, whose banner says why. */
typedef struct attention_fp8_layout {
    ptxpack_status        status;
    int64_t               head_dim, block_n;
    int64_t               v_row, vt_row; /* bytes of a box's rows; Vt's: the widest that divides BLOCK_N */
    ptxpack_layout        v, vt;         /* (key, channel) and (channel, slot) -> byte of the tile, swizzled */
    ptxpack_layout        key_of;        /* slot -> key */
    ptxpack_wgmma_operand operand;       /* B of P V: Vt */
    /* (thread): the row whose address it gives to ldmatrix -> byte of V, before the swizzle. */
    ptxpack_layout from;
    /* The same of stmatrix and Vt, before rows 2n and 2n + 1 with n & 4 change places, and the swizzle. */
    ptxpack_layout to;
    int64_t        v_bytes, v_box_bytes, vt_bytes, vt_box_bytes; /* tiles begin on 1024 */
} attention_fp8_layout;

/* HEAD_DIM a multiple of 16 up to 256, BLOCK_N of 32 up to 256; v_row 64 (HEAD_DIM 64 only) or 128.
 * PTXPACK_E_UNSUPPORTED, with a line in ptxpack_detail(NULL); that is l->status, too. */
ptxpack_status ptxpack_attention_fp8_layout(int64_t head_dim, int64_t block_n, int64_t v_row,
                                            attention_fp8_layout *l);
/* V_ROW, V_BOX_BYTES, V_SWIZZLE_MASK, VT_ROW, VT_BYTES, VT_BOX_BYTES, VT_SWIZZLE_MASK; functions VT_FROM,
 * VT_TO; DESC_VT_LOW, DESC_VT_HIGH: descriptor of the Vt tile at address 0; in units of 16 bytes
 * DESC_VT_STEP: 32 keys on inside a box, DESC_VT_STEPS times; DESC_VT_BOX: the next box. */
void ptxpack_attention_fp8_symbols(const attention_fp8_layout *l, symbol_list *list);

/* The mbarriers, 8 bytes each, in the order in which they lie: the name, and how many of them a layout `l`
 * has.  ptx/kernels.def counts their bytes for itself, and a row where its count differs is refused. */
/* clang-format off */
#define ATTENTION_WGMMA_BARRIERS(X)                                                                \
    X(Q_FULL,   l->q_stages)                                                                       \
    X(Q_EMPTY,  l->q_stages)                                                                       \
    X(K_FULL,   l->k_pieces * l->k_stages) /* ptx/attention/wgmma/pieces.ptx */                     \
    X(K_EMPTY,  l->k_pieces * l->k_stages)                                                         \
    X(V_FULL,   l->values_in_keys ? 0 : l->v_stages)                                               \
    X(V_EMPTY,  l->values_in_keys ? 0 : l->v_stages)                                               \
    X(RAW_FULL, l->raw_stages) /* fp8: V as TMA wrote it; what is called V is its transpose */     \
    X(RAW_EMPTY, l->raw_stages)                                                                    \
    X(MESSAGE_FULL,  WGMMA_MESSAGES)                                                               \
    X(MESSAGE_EMPTY, WGMMA_MESSAGES)                                                               \
    X(DONE, 1)
/* clang-format on */
#define ATTENTION_WGMMA_BARRIER_ID(name, count) WGMMA_##name,
typedef enum attention_wgmma_barrier {
    ATTENTION_WGMMA_BARRIERS(ATTENTION_WGMMA_BARRIER_ID) WGMMA_BARRIERS
} attention_wgmma_barrier;
#undef ATTENTION_WGMMA_BARRIER_ID
extern const char *const attention_wgmma_barrier_names[WGMMA_BARRIERS];

enum { WGMMA_MESSAGES = 2 /* tiles that the producer is ahead of the consumers */ };

/* The accesses of threads to shared memory. */
typedef enum attention_wgmma_access_id {
    WGMMA_ACCESS_Q, /* ldmatrix.x4 of Q: operand A, where the row keeps it in registers */
    WGMMA_ACCESS_O, /* stmatrix.x4: accumulators -> a warp's own boxes */
    WGMMA_ACCESSES
} attention_wgmma_access_id;
typedef struct attention_wgmma_access {
    const char *name, *atom; /* the copy atom's name */
    bool        used;
    /* (thread, 16 columns): the row whose address it gives -> element of 16 bits of the Q tile, or of all
     * boxes of O, before the swizzle; with fp8 a column of Q is a pair of its elements */
    ptxpack_layout offsets;
} attention_wgmma_access;

typedef struct attention_wgmma_layout {
    ptxpack_status         status;
    const ptxpack_variant *row;
    bool                   fp8;
    int64_t                element; /* bytes, of q, k and v; of o 2 */
    int64_t                head_dim, block_m, block_n, warpgroups, k_stages, v_stages, q_stages;
    /* The columns of V; warpgroups that share rows, and divide these columns; those of one of them. */
    int64_t                value_dim, column_groups, o_dim;
    bool                   exchange; /* warpgroups score every other block: ptx/attention/wgmma/exchange.ptx */
    int64_t                k_pieces; /* of a stage of K that have barriers of their own */
    bool                   o_in_q; /* the boxes for O are in Q's stage, which is free when O has been stored */
    bool                   values_in_keys;       /* V is the first columns of K's tile, whose stages are V's */
    int64_t                raw_stages;           /* fp8: of V before it is transposed; otherwise 0 */
    int64_t                p_buffers, o_buffers; /* o_buffers: boxes that a warp has for its rows of O */
    bool                   q_registers;
    int64_t                producer_warps, regs_producer, regs_consumer; /* registers a thread; 0: never set */
    int64_t                boxes, box_columns; /* a tile is so many boxes of so many columns, side by side */
    int64_t                v_boxes;            /* the same of V, which has boxes of as many columns */
    int64_t                o_boxes, o_columns; /* the same of a warpgroup's O */
    ptxpack_tiled_mma      qk, pv;             /* of all warpgroups */
    ptxpack_layout         q, k;               /* (row, column) -> element of a tile, swizzled */
    ptxpack_layout         v;                  /* as PV reads it, (column, key); with fp8 transposed.vt */
    attention_fp8_layout   transposed;         /* fp8 only */
    ptxpack_layout         o;                  /* (row, column of one box) -> element of all boxes of O */
    ptxpack_wgmma_operand  q_operand, k_operand, v_operand;
    ptxpack_tma_box        q_box, k_box, v_box, o_box; /* of tensors {head_dim, sequence, head, batch} */
    ptxpack_layout         c_place;                    /* (thread, row half, 8 columns) -> (row, column) of S */
    attention_wgmma_access access[WGMMA_ACCESSES];
    /* Bytes. */
    int64_t q_stage_bytes, q_box_bytes, k_stage_bytes, kv_box_bytes, o_box_bytes;
    int64_t v_stage_bytes; /* of what PV reads */
    int64_t smem_q, smem_k, smem_raw, smem_v, smem_o, smem_exchange, smem_barriers, smem_message;
    int64_t smem_descales, smem_lengths; /* behind the messages: fp8 only; the others: lengths, parts, orders */
    int64_t shared_bytes;
    int64_t barrier[WGMMA_BARRIERS]; /* where the first of each kind lies */
    int64_t barrier_count[WGMMA_BARRIERS];
} attention_wgmma_layout;

/* The workspace: the counter of items; a word for each item; and where tiles have parts, a counter for each warp of each
 * tile, and a slot for each warp of each item (ptx/attention/wgmma/split.ptx). */
typedef struct attention_wgmma_workspace {
    uint64_t bytes, counters;      /* counters: bytes that are zero between launches, the first ones */
    int32_t  tile_counters, slots; /* where they begin, in units of 16 bytes; 0: there are none */
} attention_wgmma_workspace;
attention_wgmma_workspace attention_wgmma_workspace_of(const attention_wgmma_layout *l,
                                                       const attention_split *split, int64_t tiles);

/* PTXPACK_E_UNSUPPORTED, with a line in ptxpack_detail(NULL), when the row contradicts itself.  That is
 * l->status, too. */
ptxpack_status ptxpack_attention_wgmma_layout(const ptxpack_variant *row, attention_wgmma_layout *l);
/* The conflicts that the hardware sees in one access, all warps and steps. */
ptxpack_banks ptxpack_attention_wgmma_banks(const attention_wgmma_layout *l, attention_wgmma_access_id id);
/* Puts the type, extents and strides of the problem's tensor into `box`, a copy of the box of that tensor; a ragged
 * map (ptx/attention/wgmma/lengths.ptx) where sequences have lengths of their own.
 * PTXPACK_E_UNSUPPORTED, with a line in ptxpack_detail(NULL), for strides that TMA does not take. */
ptxpack_status ptxpack_attention_wgmma_map(const ptxpack_attention_desc *desc,
                                           const attention_geometry *geometry, int tensor,
                                           ptxpack_tma_box *box);
/* Makes of such a box of q or o the one of tiles with the rows of `group` heads (ptx/attention/wgmma/packed.ptx). */
void attention_wgmma_pack_box(ptxpack_tma_box *box, int32_t group);
/* With COLUMN_GROUPS: a block of K, or of V, is one box of `chunks` times 64 columns, in the order of a tile's boxes.  The map then has
 * chunks of all heads in place of heads, so that the key head is its first chunk; `false` where columns or strides do not allow it. */
bool attention_wgmma_has_wide_boxes(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                    const ptxpack_variant *row);
/* The chunks from one key head to the next. */
int32_t attention_wgmma_head_chunks(const ptxpack_attention_desc *desc, const attention_geometry *geometry);
/* Makes of a box of k or v, which has so many columns, the one of a whole block, or where that has pieces of one of them. */
void attention_wgmma_widen_box(ptxpack_tma_box *box, const attention_wgmma_layout *l, int32_t columns,
                               int32_t heads, int32_t head_chunks);
/* Of a ragged map: the rows from one sequence, or page, to the next; and the rows of a box of pages. */
int32_t attention_wgmma_rows_apart(const ptxpack_attention_desc *desc, const attention_tensor *tensor);
int32_t attention_wgmma_box_rows(const ptxpack_attention_desc *desc, int64_t block_n);
#endif
