/* append_image.h - random rows, lengths and page tables of appends, and the judgement of what a launch wrote. */
#ifndef PTXPACK_CHECK_APPEND_IMAGE_H
#define PTXPACK_CHECK_APPEND_IMAGE_H
#include "host/attention/append/inspect.h"
#include "region.h"
#include "tools/problem/random.h"

/* Q has memory of its own and so has q_out; or q_out is q; or q, k_new and v_new are parts of one tensor, and q_out is
 * q. */
typedef enum append_q_place { Q_APART, Q_IN_PLACE, Q_IN_QKV } append_q_place;

typedef struct append_case {
    int32_t        batch, seqlen_new, seqlen_kv, heads_kv, heads_q, dim, rotary;
    int32_t        page_rows; /* 0: dense */
    bool           packed;
    uint32_t       options;
    append_q_place q_place;
    bool           heads_first; /* in k and v */
    bool           one_tensor;  /* k and v are parts of one */
    bool           quick;
    ptxpack_dtype  kv_dtype; /* 0: as the new rows; bytes have descales for each of them that `options` say */
} append_case;

/* A region for each tensor, in the order of op.h; those that are parts of another one are empty. */
enum {
    REGION_COS = APPEND_TENSORS,
    REGION_SIN,
    REGION_ARRAYS,
    REGION_K_DESCALE = REGION_ARRAYS + APPEND_ARRAYS,
    REGION_V_DESCALE,
    REGIONS
};

typedef struct append_image {
    ptxpack_attention_append_desc desc;
    append_geometry               geometry;
    check_region                  region[REGIONS];
    int     lies_in[APPEND_TENSORS]; /* the region of a tensor, and where in it, in bytes */
    size_t  offset[APPEND_TENSORS];
    double *want[APPEND_TENSORS]; /* of those that are written: NOT_WRITTEN, or the element */
    char    line[256];
} append_image;

/* Reserves host memory.  False, with the line. */
bool append_image_make(append_image *image, const append_case *a, ptxpack_dtype dtype);
/* New lengths, tables and rows, among poison; and what a launch must make of them.  False, with the line. */
bool append_image_draw(append_image *image, random_state *random);
/* What is wrong with what is in `after`; NULL: nothing. */
const char *append_image_judge(append_image *image);
void        append_image_free(check *c, append_image *image);
uint64_t    append_image_at(const append_image *image, int tensor); /* on the device; 0: there is none */
uint64_t    append_image_array(const append_image *image, int array);
#endif
