/* image.h - what a case of lengths.c has in memory: rows among NaNs, arrays, outputs among guard bytes. */
#ifndef PTXPACK_CHECK_LENGTHS_IMAGE_H
#define PTXPACK_CHECK_LENGTHS_IMAGE_H
#include "host/attention/append/inspect.h"
#include "host/attention/inspect.h"
#include "hooks.h"
#include "tests/check/region.h"
#include "tools/problem/random.h"

/* How the rows of a case are stored. */
typedef struct lengths_storage {
    const char  *name;
    ptxpack_rows q_rows, kv_rows;
    int32_t      page_rows;
    uint32_t     options;
    bool         heads_first; /* a head's rows are neighbours */
    bool         one_tensor;  /* pages of K and V in turn */
} lengths_storage;

/* What a launch appends before it attends. */
enum { ALL_OF_HEAD = 1 };
typedef struct lengths_append {
    const char *name;
    int32_t     seqlen_new; /* 0: the new rows are those of q, which is rotated */
    int32_t     rotary;     /* 0: nothing is rotated; ALL_OF_HEAD; or so many elements */
    uint32_t    options;    /* of the append */
    bool        packed;     /* the new rows, where they are not those of q */
    bool        in_place;   /* q */
    bool        stated;     /* all fields and addresses that might be 0 */
} lengths_append;

enum { NEW_K, NEW_V, NEW_Q, NEW_COS, NEW_SIN, NEW_LENGTHS, NEW_STARTS, NEW_PAD, NEW_REGIONS };
typedef struct lengths_new {
    const lengths_append         *kind;        /* NULL: nothing is appended */
    ptxpack_attention_append_desc desc, whole; /* as a plan is given it, and complete */
    append_geometry               geometry;
    check_region                  region[NEW_REGIONS];
    uint8_t                      *want[TENSOR_O]; /* q, k and v after the append, with their guards */
} lengths_new;

typedef struct lengths_image {
    ptxpack_attention_desc desc; /* with rows and strides */
    attention_geometry     geometry;
    bool                   one_tensor;
    uint8_t               *host[TENSOR_COUNT]; /* with CHECK_GUARD bytes before and after */
    size_t                 bytes[TENSOR_COUNT];
    float                 *lse;
    size_t                 lse_bytes;
    int32_t               *arrays[ARRAY_COUNT]; /* NULL: not asked for */
    const check_hook      *hook;                /* NULL: none */
    float                 *descale[TENSOR_O];   /* of k and v of bytes; NULL: none */
    int                    beyond_f16;          /* powers of two by which q is larger */
    lengths_new            fresh;
    char                   line[PLAN_LINE];
} lengths_image;

/* Complete `desc`, and allocate; false with image->line.  Close it in either case. */
bool lengths_image_open(lengths_image *image, const ptxpack_attention_desc *desc,
                        const lengths_storage *storage);
void lengths_image_close(lengths_image *image);
/* Draw lengths, starts, pages, rows and descales; all the rest is NaN, or -1 of int8.  `steep`: with scores that rise so much,
 * and V so large, that wgmma.ptx computes tiles a second time (bf16); of bytes with q beyond the range of f16. */
void lengths_image_fill(lengths_image *image, random_state *random, bool steep);

/* Draw lists of blocks, if the descriptor has them. */
void lengths_lists_fill(lengths_image *image, random_state *random);

/* Rows of sequence i; the index of the first element of a row of it. */
attention_sequence lengths_image_sequence(const lengths_image *image, int32_t i);
size_t lengths_image_element(const lengths_image *image, int tensor, int32_t i, int64_t row, int64_t head);
/* An input of the attention: after the append. */
const void               *lengths_image_tensor(const lengths_image *image, int tensor);
ptxpack_attention_lengths lengths_image_arrays(const lengths_image *image);
/* A row of the output after a run. */
const void  *lengths_image_o_row(const lengths_image *image, const attention_row *row);
const float *lengths_image_lse(const lengths_image *image, const attention_row *row);
/* Whether all bytes that are not a row of a sequence still hold what they held; destroys the rows. */
bool lengths_image_untouched(lengths_image *image, char *what, size_t cap);

/* Add an append to an image that is open; new rows for it, of lengths and rows that are drawn; false with image->line. */
bool lengths_append_open(lengths_image *image, const lengths_append *kind);
bool lengths_append_fill(lengths_image *image, random_state *random);
void lengths_append_close(check *c, lengths_image *image);
/* The new rows on the device, which all plans share; the addresses of a launch; what is wrong with q, k or v after it. */
bool                             lengths_append_upload(check *c, lengths_image *image);
ptxpack_attention_append_buffers lengths_append_buffers(const lengths_image             *image,
                                                        const ptxpack_attention_buffers *buffers);
void lengths_append_compare(const lengths_image *image, int tensor, const void *got, char *what, size_t cap);

/* For each row of kernels.def its plan, device memory and graph, which all rounds use. */
typedef struct lengths_run_state lengths_run_state;
typedef struct lengths_runs {
    lengths_run_state *of_row; /* [count] */
    size_t             count;
} lengths_runs;
bool lengths_runs_open(lengths_runs *runs);
void lengths_runs_close(check *c, lengths_runs *runs);
/* Run on row `index`, twice; what is wrong beside the values is in `what`, else "".  False when the device or the
 * library failed, with a line in `what`. */
bool lengths_run(check *c, lengths_image *image, lengths_runs *runs, size_t index, const ptxpack_variant *row,
                 char *what, size_t cap);
#endif
