/* op.h - private: the append as an operation of the spine. */
#ifndef PTXPACK_ATTENTION_APPEND_OP_H
#define PTXPACK_ATTENTION_APPEND_OP_H
#include "append.h"
#include "args.h"
#include "host/plan/memory.h"
#include "host/plan/plan.h"

enum { APPEND_K_NEW, APPEND_V_NEW, APPEND_Q, APPEND_K, APPEND_V, APPEND_Q_OUT, APPEND_TENSORS };
extern const char *const append_tensor_names[APPEND_TENSORS];
enum { APPEND_MOST_DIM = 1024 }; /* head_dim */

/* The arrays of a launch, in the order of every table about them. */
enum {
    APPEND_LENGTHS_KV,
    APPEND_LENGTHS_NEW,
    APPEND_STARTS_NEW,
    APPEND_ROW_MAP,
    APPEND_LEFT_PAD,
    APPEND_PAGE_TABLE,
    APPEND_ARRAYS
};
extern const char *const append_array_names[APPEND_ARRAYS];

typedef struct append_geometry {
    memory_tensor tensor[APPEND_TENSORS];     /* those of q have 0 bytes when there is no q */
    uint64_t      array_bytes[APPEND_ARRAYS]; /* 0: not asked for */
    uint64_t      table_bytes;                /* of cos, and of sin */
    uint64_t      descale_bytes;              /* of k's, and of v's; 0 without kv_dtype */
    /* A thread does one unit: 16 bytes of a head, or two times 16 where element j is rotated with j + rotary_dim / 2; of K
     * and V in blocks it is a block. */
    int32_t head_units, rotated; /* of a head of K or Q; the first ones are rotated */
    int32_t k_units, v_units;    /* of a head of K, and of V */
    int64_t rows;                /* of k_new in memory */
    int64_t row_units;           /* of all heads of K, V and Q */
} append_geometry;

struct ptxpack_attention_append_plan {
    plan_head        head;
    append_geometry  geometry;
    append_arguments arguments; /* all but what a launch brings */
};

extern const plan_op append_op; /* its descriptor is a ptxpack_attention_append_desc */

/* PTXPACK_E_ARG, with the line of the field */
ptxpack_status append_resolve(const ptxpack_attention_append_desc *desc, append_geometry *out,
                              char line[PLAN_LINE]);
/* The type of k and v; whether it is one of blocks, or of bytes with descales. */
static inline ptxpack_dtype append_kv_type(const ptxpack_attention_append_desc *desc)
{
    return desc->kv_dtype != 0 ? desc->kv_dtype : desc->dtype;
}
static inline bool append_has_blocks(const ptxpack_attention_append_desc *desc)
{
    return append_kv_type(desc) == PTXPACK_Q8_0;
}
static inline bool append_has_bytes(const ptxpack_attention_append_desc *desc)
{
    return append_kv_type(desc) != desc->dtype && !append_has_blocks(desc);
}
/* From one sequence, or one key head, to the next in the descales of k and v. */
static inline int64_t append_descale_batch(const ptxpack_attention_append_desc *desc)
{
    return (desc->options & (PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD)) != 0 ? 0 : desc->heads_kv;
}
static inline int64_t append_descale_head(const ptxpack_attention_append_desc *desc)
{
    return (desc->options & PTXPACK_DESCALES_TENSOR) != 0 ? 0 : 1;
}
extern const plan_struct append_desc_struct;
/* What comes with a launch; and the same for its addresses. */
extern const plan_struct append_buffers_struct;
ptxpack_status append_check(const append_geometry *geometry, const ptxpack_attention_append_buffers *buffers,
                            char line[PLAN_LINE]);
/* What a launch reads and writes: the tensors, cos and sin, the arrays, the descales. */
enum { APPEND_RANGES = APPEND_TENSORS + 2 + APPEND_ARRAYS + 2 };
void append_list_memory(const append_geometry *geometry, const ptxpack_attention_append_buffers *buffers,
                        memory_range ranges[APPEND_RANGES]);
/* Array `id` of the buffers, if the geometry asks for it; otherwise 0. */
uint64_t append_array(const append_geometry *geometry, const ptxpack_attention_append_buffers *buffers, int id);

/* Where row i of a sequence's new rows goes. */
typedef struct append_place {
    bool    dropped;    /* nowhere in the cache */
    int64_t batch, row; /* in k and v */
    int64_t position;   /* of the row in cos and sin, and that of q's */
    int64_t q_position;
} append_place;
/* The first new row in memory (packed; otherwise 0) and the number of new rows of sequence `i`.  PTXPACK_E_ARG, with the
 * line of the array that is missing or leads beyond the rows in memory */
ptxpack_status append_read(const ptxpack_attention_append_desc *desc, const append_geometry *geometry,
                           const ptxpack_attention_append_inputs *inputs, int32_t i, int64_t *first,
                           int64_t *count, char line[PLAN_LINE]);
append_place   append_place_of(const ptxpack_attention_append_desc   *desc,
                               const ptxpack_attention_append_inputs *inputs, int32_t i, int64_t count,
                               int64_t row);

/* ptxpack_attention_append_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_attention_append_plan_row(ptxpack *handle, const ptxpack_attention_append_desc *desc,
                                                 const ptxpack_variant          *row,
                                                 ptxpack_attention_append_plan **plan);
#endif
